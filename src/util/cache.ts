import { homedir } from 'node:os'
import { join } from 'node:path'

/** This project's per-user cache: `$XDG_CACHE_HOME/teamtr`, else `~/.cache/teamtr`. (scripts/ knows it too: it runs before anything is compiled.) */
export const cacheFolder = (): string => join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'teamtr')
