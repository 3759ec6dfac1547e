/** What a command said, without how far it was meanwhile: that a slow machine may tell (src/util/progress.ts). */
export const withoutProgress = (stderr: string): string => stderr.replace(/^.* \d[\d,]*\/\d[\d,]*.*, .* left.*\n/gm, '')
