/** Whose a new volume is: the engine makes it root's, and a program that runs as somebody else could not write to it. */
import { chown, readdir, stat } from 'node:fs/promises';
import { text } from 'node:stream/consumers';
import { pipeline } from 'node:stream/promises';
import { hasErrno } from '@flynn/kit/errors';
import { extract } from 'tar-stream';
import type { DockerContext } from './docker-containers.ts';
import { engineCall, isStatus } from './docker-errors.ts';
import type { CallOptions } from './engine.ts';

type Owner = { uid: number; gid: number };

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
  const owner = ownerOf(config.User, '') ?? ownerOf(config.User, await readPasswords(context, id, options));
  if (owner === undefined || owner.uid === 0) return;
  for (const folder of folders) await ownFresh(folder, owner);
}

/** Of `5000`, `5000:5000`, `node` or `node:5000`; a name is looked up in what /etc/passwd says. A group's name is nobody's. */
export function ownerOf(user: string, passwords: string): Owner | undefined {
  const [name = '', group = ''] = user.split(':', 2);
  const line = passwords.split('\n').find((entry) => entry.startsWith(`${name}:`));
  const [, , uid = '', gid = ''] = line?.split(':') ?? [];
  const wanted = /^\d+$/.test(name) ? { uid: name, gid: group } : { uid, gid: group === '' ? gid : group };
  if (!/^\d+$/.test(wanted.uid)) return undefined;
  return { uid: Number(wanted.uid), gid: /^\d+$/.test(wanted.gid) ? Number(wanted.gid) : 0 };
}

async function ownFresh(folder: string, { uid, gid }: Owner): Promise<void> {
  try {
    const there = await stat(folder);
    if (there.uid !== 0 || there.gid !== 0 || (await readdir(folder)).length > 0) return;
    await chown(folder, uid, gid);
  } catch (error) {
    // Of an engine whose files are not to be seen from here.
    if (!hasErrno(error, 'ENOENT')) throw error;
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

/** '' where there is none. Fails where the archive breaks off: piped alone it would be waited for. */
async function firstFileOf(archive: NodeJS.ReadableStream, signal: AbortSignal): Promise<string> {
  const files = extract();
  const read = async (): Promise<string> => {
    let first: string | undefined;
    for await (const file of files) {
      first ??= await text(file);
      file.resume();
    }
    return first ?? '';
  };
  const [content] = await Promise.all([read(), pipeline(archive, files, { signal })]);
  return content;
}
