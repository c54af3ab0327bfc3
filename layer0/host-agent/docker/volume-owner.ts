/** Whose a new volume is: the engine makes it root's, and a program that runs as somebody else could not write to it. */
import { chown, readdir, stat } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { hasErrno } from '@flynn/kit/errors';
import { extract } from 'tar-stream';
import type { DockerContext } from './containers.ts';
import { engineCall, isStatus } from './errors.ts';
import type { CallOptions } from '../engine/engine.ts';

type Owner = { uid: number; gid: number };

/** Of the image's users; whoever comes later is not found. An image may have any file there. */
const maxPasswordBytes = 1024 ** 2;

/**
 * Gives each volume of the container that has nothing in it, and is root's, to the user the container runs as. Of a folder
 * that the image has at its place the engine has copied owner and files by now: that stays, as does all that was written.
 */
export async function ownVolumes(context: DockerContext, id: string, options: CallOptions): Promise<void> {
  const { Mounts: mounts, Config: config } = await engineCall(
    `looking at container ${id}`,
    (abortSignal) => context.docker.getContainer(id).inspect({ abortSignal }),
    options,
  );
  const folders = mounts.filter(({ Type, RW }) => Type === 'volume' && RW).map(({ Source }) => Source);
  if (folders.length === 0 || config.User === '') return;
  const fresh: string[] = [];
  for (const folder of folders) if (await isFresh(folder)) fresh.push(folder);
  if (fresh.length === 0) return;
  const owner = ownerOf(config.User, '') ?? ownerOf(config.User, await readPasswords(context, id, options));
  if (owner === undefined || owner.uid === 0) return;
  for (const folder of fresh) await chown(folder, owner.uid, owner.gid);
}

/** Of `5000`, `5000:5000`, `node` or `node:5000`; a name is looked up in what /etc/passwd says. A group's name is nobody's. */
export function ownerOf(user: string, passwords: string): Owner | undefined {
  const [name = '', group = ''] = user.split(':', 2);
  const [, , uid = '', gid = ''] = lineOf(name, passwords).split(':', 4);
  const wanted = /^\d+$/.test(name) ? { uid: name, gid: group } : { uid, gid: group === '' ? gid : group };
  if (!/^\d+$/.test(wanted.uid)) return undefined;
  return { uid: Number(wanted.uid), gid: /^\d+$/.test(wanted.gid) ? Number(wanted.gid) : 0 };
}

function lineOf(name: string, passwords: string): string {
  const at = `\n${passwords}`.indexOf(`\n${name}:`);
  if (at < 0) return '';
  const end = passwords.indexOf('\n', at);
  return passwords.slice(at, end < 0 ? undefined : end);
}

async function isFresh(folder: string): Promise<boolean> {
  try {
    const { uid, gid } = await stat(folder);
    return uid === 0 && gid === 0 && (await readdir(folder)).length === 0;
  } catch (error) {
    // Of an engine whose files are not to be seen from here.
    if (hasErrno(error, 'ENOENT')) return false;
    throw error;
  }
}

async function readPasswords({ docker }: DockerContext, id: string, options: CallOptions): Promise<string> {
  return await engineCall(
    `reading the users of container ${id}`,
    async (abortSignal) => {
      try {
        const archive = await docker.getContainer(id).getArchive({ path: '/etc/passwd', abortSignal });
        return await firstFileOf(archive, abortSignal);
      } catch (error) {
        if (isStatus(error, 404)) return '';
        throw error;
      }
    },
    options,
  );
}

/** As much as counts; '' where there is none. Fails where the archive breaks off before: piped alone it would be waited for. */
async function firstFileOf(archive: NodeJS.ReadableStream, signal: AbortSignal): Promise<string> {
  const files = extract();
  const ending = new AbortController();
  const piped = pipeline(archive, files, { signal: AbortSignal.any([signal, ending.signal]) });
  const read = async (): Promise<string> => {
    for await (const file of files) return await startOf(Readable.from(file));
    return '';
  };
  const content = read();
  try {
    return await Promise.race([content, piped.then(() => content)]);
  } finally {
    ending.abort();
    // Why it failed was thrown by the race, or is that it was ended here.
    await piped.catch(() => undefined);
  }
}

async function startOf(file: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of file) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes >= maxPasswordBytes) break;
  }
  return Buffer.concat(chunks).toString('utf8', 0, maxPasswordBytes);
}
