/**
 * The platform's images as an engine of a test host keeps them, for further hosts to begin with: its files are linked there, in a
 * tenth of the time that loading takes. Engines never write to layers of images, so several may have the same files.
 */
import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { hasCode } from '@flynn/kit/errors';
import { retry } from '@flynn/kit/retry';
import { withHostLock } from '../host-lock.ts';
import { runProgram } from '../machine/program.ts';
import { dataOf, mountDisk } from './disk.ts';
import type { HostFamily } from './network.ts';
import { TestHost } from './test-host.ts';

const timeoutMs = 60_000;
/** For those who wait while another makes it. */
const turnMs = 300_000;
/** Of the family's hosts, while it is made. */
const ownIndex = 99;

/** What an engine writes anew or appends to is copied; what it only reads is linked. */
const parts = { copied: 'image', linked: 'overlay2' } as const;

/** A whole one; of one that was broken off the name has more to it. */
const storeName = /^[0-9a-f]{16}$/;

/** Its folder, made once for these images; undefined where engines keep them in another way. */
export async function ensureImageStore(family: HostFamily, tags: readonly string[]): Promise<string | undefined> {
  const key = createHash('sha256')
    .update([...tags].sort().join('\n'))
    .digest('hex')
    .slice(0, 16);
  const stores = join(family.root, '.images');
  const folder = join(stores, key);
  await retry(() => withHostLock(stores, 'making images for test hosts', () => make(family, tags, folder)), {
    what: 'the images for test hosts',
    deadlineMs: turnMs,
    maxMs: 500,
    isRetryable: (error) => hasCode(error, 'conflict'),
  });
  return existsSync(folder) ? folder : undefined;
}

async function make(family: HostFamily, tags: readonly string[], folder: string): Promise<void> {
  if (existsSync(folder)) return;
  await using host = new TestHost(family, 'images', ownIndex);
  await host.create();
  const stores = join(folder, '..');
  // What images before these have in common with them is most of all, and need not be loaded again.
  const former = (existsSync(stores) ? await readdir(stores) : []).find((name) => storeName.test(name));
  try {
    if (former !== undefined) await linkImages(join(stores, former), host);
    await host.startEngine();
    await host.dropImages(tags);
    await host.copyImages(tags);
    await host.killEngine();
  } finally {
    // Hosts that began with them have the files still. Where this fails they may be why: the next try begins without.
    if (former !== undefined) await rename(join(stores, former), join(stores, `${former}.gone`));
    await rm(stores, { recursive: true, force: true });
  }
  const data = dataOf(host.directory);
  const kept = Object.values(parts);
  if (!kept.every((part) => existsSync(join(data, part)))) return;
  const unfinished = `${folder}.new`;
  await mkdir(unfinished, { recursive: true });
  for (const part of kept) await rename(join(data, part), join(unfinished, part));
  await rename(unfinished, folder);
}

/** For a host whose engine has never run; one with a disk of its own has them copied there. */
export async function linkImages(store: string, host: TestHost): Promise<void> {
  const data = dataOf(host.directory);
  await mountDisk(host.directory);
  await mkdir(data, { recursive: true, mode: 0o710 });
  const isSameDisk = (await stat(data)).dev === (await stat(store)).dev;
  await runProgram('cp', ['-a', join(store, parts.copied), data], { timeoutMs });
  await runProgram('cp', [isSameDisk ? '-al' : '-a', join(store, parts.linked), data], { timeoutMs });
}
