/** What somebody is to say and nobody is to see: typed without an echo, or all of standard input. */
import { StringDecoder } from 'node:string_decoder';
import { FlynnError } from '@flynn/kit/errors';
import { readNamed } from './input-file.ts';
import type { Io } from './io.ts';

const keys = { enter: /[\r\n]/, erase: /[\b\u007f]/, interrupt: '\u0003', end: '\u0004' } as const;

/** `asked`: "the password". Without the end of its line. Throws `cancelled` for Ctrl-C. */
export async function readSecret(io: Io, asked: string): Promise<string> {
  if (io.stdin.isTTY !== true) return (await readNamed(io, '-')).replace(/\r?\n$/, '');
  io.stderr.write(`${asked.charAt(0).toUpperCase()}${asked.slice(1)}, which is not shown: `);
  io.stdin.setRawMode?.(true);
  try {
    return await typedLine(io.stdin);
  } finally {
    io.stdin.setRawMode?.(false);
    io.stdin.pause();
    io.stderr.write('\n');
  }
}

async function typedLine(stdin: Io['stdin']): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const typed: string[] = [];
  const decoder = new StringDecoder('utf8');
  const onData = (chunk: Buffer | string) => {
    for (const char of decoder.write(Buffer.from(chunk))) {
      if (char === keys.interrupt) reject(new FlynnError('cancelled', 'stopped: nothing was changed'));
      else if (char === keys.end || keys.enter.test(char)) resolve(typed.join(''));
      else if (keys.erase.test(char)) typed.pop();
      else typed.push(char);
    }
  };
  const onEnd = () => resolve(typed.join(''));
  stdin.on('data', onData);
  stdin.once('end', onEnd);
  try {
    return await promise;
  } finally {
    stdin.removeListener('data', onData);
    stdin.removeListener('end', onEnd);
  }
}
