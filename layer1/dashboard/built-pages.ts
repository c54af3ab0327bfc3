/** Pages made of their sources when the server starts: for work on them, where there is no image. */
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { buildWeb } from './web-build.ts';

/** The folder they are in. */
export async function buildPages(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-dashboard-'));
  for (const { path, content } of await buildWeb()) {
    const file = join(folder, path);
    await mkdir(dirname(file), { recursive: true });
    await writeFile(file, content);
  }
  return folder;
}
