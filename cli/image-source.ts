/** Where an image to be pushed comes from: an engine on this machine, or a file. */
import { spawn } from 'node:child_process';
import { createReadStream } from 'node:fs';
import { resolve } from 'node:path';
import { Readable } from 'node:stream';
import { Archive } from '@flynn/controller/images/archive';
import { FlynnError, hasErrno } from '@flynn/kit/errors';
import type { Io } from './io.ts';

type Options = { io: Io; folder: string; signal: AbortSignal };

/** `-` is standard input. */
export function readFileImage(path: string, { io, folder, signal }: Options): Promise<Archive> {
  const input = path === '-' ? Readable.from(io.stdin, { objectMode: false }) : createReadStream(resolve(io.cwd, path));
  return Archive.unpack(input, folder, signal);
}

/** What `ENGINE image save NAME` writes. */
export async function readEngineImage(engine: string, name: string, options: Options): Promise<Archive> {
  const { io, folder, signal } = options;
  // What looks like an option of the engine's command is no name.
  if (name.startsWith('-')) throw new FlynnError('invalid', `"${name}" is no name of an image`);
  const saving = spawn(engine, ['image', 'save', name], {
    cwd: io.cwd,
    env: { ...io.env },
    stdio: ['ignore', 'pipe', 'pipe'],
    signal,
  });
  let said = '';
  saving.stderr.on('data', (data: Buffer) => (said = (said + data.toString()).slice(-2_000)));
  const ended = new Promise<number | null>((done, fail) => {
    saving.once('error', fail);
    saving.once('close', done);
  });
  const [archive, exit] = await Promise.allSettled([Archive.unpack(saving.stdout, folder, signal), ended]);
  signal.throwIfAborted();
  if (exit.status === 'rejected') {
    if (!hasErrno(exit.reason, 'ENOENT')) throw exit.reason;
    throw new FlynnError(
      'not_found',
      `there is no ${engine} on this machine to take ${name} from\n  --engine names another program, --file takes an archive that one saved`,
    );
  }
  if (exit.value !== 0) {
    throw new FlynnError(
      'not_found',
      `${engine} did not give ${name}: ${said.trim()}\n  "${engine} images" lists what it has`,
    );
  }
  if (archive.status === 'rejected') throw archive.reason;
  return archive.value;
}
