/** A plain text table: the first column flush left, the others flush right, two spaces between. */
export const textTable = (header: readonly string[], rows: readonly (readonly string[])[]): string => {
  const all = [header, ...rows]
  const widths = header.map((_, column) => Math.max(...all.map((row) => (row[column] ?? '').length)))
  const line = (row: readonly string[]): string =>
    widths.map((width, column) => (column === 0 ? (row[column] ?? '').padEnd(width) : (row[column] ?? '').padStart(width))).join('  ').trimEnd()
  return [line(header), widths.map((width) => '─'.repeat(width)).join('  '), ...rows.map(line)].join('\n')
}
