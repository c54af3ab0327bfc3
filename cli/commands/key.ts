import { readdir } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { keys } from '@flynn/controller/keys/api';
import type { Key } from '@flynn/controller/model';
import { FlynnError } from '@flynn/kit/errors';
import type { Context } from '../context.ts';
import { readNamed } from '../input-file.ts';
import { formatAge, formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

export function addKeyCommands(parent: Parent): void {
  const key = addCommand(parent, {
    name: 'key',
    summary: 'the SSH keys you push with; as an admin, those of all',
    lists: true,
    async run(context) {
      const client = await context.client();
      const found = await client.call(keys.list, {});
      context.show(found, () =>
        formatTable(
          ['FINGERPRINT', 'USER', 'ADDED', 'COMMENT'],
          found.map((one) => [
            one.fingerprint,
            one.user ?? one.userId,
            formatAge(one.createdAt, Date.now()),
            one.comment,
          ]),
        ),
      );
    },
  });

  addCommand(parent, {
    under: key,
    name: 'add',
    summary: 'let a public key push, as you',
    arguments: [['[file]', 'a public key, - for standard input; else those in ~/.ssh']],
    async run(context, _options, [file]) {
      const client = await context.client();
      const added: Key[] = [];
      for (const publicKey of await publicKeys(context, file)) {
        added.push(await client.call(keys.create, { body: { publicKey } }));
      }
      context.show(added, () => added.map((one) => `${one.fingerprint} ${one.comment} may push\n`).join(''));
    },
  });

  addCommand(parent, {
    under: key,
    name: 'remove',
    summary: 'take a key back',
    arguments: [['<fingerprint>', 'as "flynn key" shows it']],
    async run(context, _options, [fingerprint = '']) {
      const client = await context.client();
      await client.call(keys.remove, { params: { fingerprint } });
      context.show({ removed: fingerprint }, () => `${fingerprint} may push no more`);
    },
  });
}

async function publicKeys(context: Context, file: string | undefined): Promise<string[]> {
  const files = file === undefined ? await ownPublicKeys(context) : [file];
  return Promise.all(files.map((name) => readPublicKey(context, name)));
}

async function readPublicKey(context: Context, file: string): Promise<string> {
  const content = await readNamed(context.io, file);
  if (!content.includes('PRIVATE KEY')) return content.trim();
  throw new FlynnError(
    'invalid',
    `${file === '-' ? 'that' : file} is a private key, which stays on your machine\n  the public one is in the file beside it that ends with .pub`,
  );
}

async function ownPublicKeys(context: Context): Promise<string[]> {
  const folder = join(context.io.env['HOME'] ?? homedir(), '.ssh');
  // Without the folder there is no key in it.
  const names: readonly string[] = await readdir(folder).catch(() => []);
  const found = names.filter((name) => /^id_.*(?<!-cert)\.pub$/.test(name));
  if (found.length > 0) return found.map((name) => join(folder, name));
  throw new FlynnError(
    'not_found',
    `there is no public key in ${folder}\n  make one with "ssh-keygen -t ed25519", or name a file`,
  );
}
