/** Where the engine keeps its files, while it does not say so itself. */
import { readJsonFile } from '@flynn/kit/files';
import { z } from 'zod';

const daemonSchema = z.object({ 'data-root': z.string().default('/var/lib/docker') });

/** As it is told to have it. Where that cannot be read (an empty file is fine for engines) it is the usual place. */
export async function engineDataDir(settings = '/etc/docker/daemon.json'): Promise<string> {
  const known = await readJsonFile(settings, daemonSchema).catch(() => undefined);
  return (known ?? daemonSchema.parse({}))['data-root'];
}
