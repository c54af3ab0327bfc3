/** `flynn-host collect-debug`: what is going on here, gathered while parts of it may be broken, without secrets. */
import { execFile } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { open, rm, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { type Pack, pack } from 'tar-stream';
import { routes } from '../api.ts';
import type { Installation } from './installation.ts';
import { withoutEnvironment } from './jobs.ts';

/** In the state directory; the last of each. What an update did here is in `update.log`, why it failed in `refresh.json`. */
const stateFiles = ['agent.log', 'agent.log.1', 'update.log', 'update.json', 'refresh.json'];

const programDeadlineMs = 15_000;
const logTailBytes = 1024 * 1024;

/** Each may be missing on a machine, or fail: what it said is kept either way. */
const programs: readonly (readonly [string, string, ...string[]])[] = [
  ['system/uname', 'uname', '-a'],
  ['system/uptime', 'uptime'],
  ['system/disk', 'df', '-h'],
  ['system/memory', 'free', '-m'],
  ['system/processes', 'ps', '-eo', 'pid,ppid,rss,pcpu,etime,args', '--sort=-rss'],
  ['network/addresses', 'ip', 'address'],
  ['network/routes', 'ip', 'route', 'show', 'table', 'all'],
  ['network/neighbours', 'ip', 'neighbour'],
  ['network/nft', 'nft', 'list', 'ruleset'],
  ['network/iptables', 'iptables-save'],
  ['network/sockets', 'ss', '-ltnup'],
];

/** Answers where the file is. `unavailable` where it cannot be written, as on a full disk; then no part of it stays. */
export async function collectDebug(client: HttpClient, installation: Installation, file?: string): Promise<string> {
  const at = new Date().toISOString().replaceAll(/[:.]/g, '-');
  const name = `flynn-debug-${installation.environment['FLYNN_HOST_ID'] ?? 'host'}-${at}`;
  const path = resolve(file ?? `${name}.tar.gz`);
  const tar = pack();
  const writing = pipeline(tar, createGzip(), createWriteStream(path, { mode: 0o600 }));
  try {
    // Whichever fails first: what cannot be written is gathered for nobody.
    await Promise.race([writing, gather(tar, name, { client, installation })]);
    tar.finalize();
    await writing;
    return path;
  } catch (error) {
    tar.destroy();
    await removePart(path);
    throw new FlynnError(
      'unavailable',
      `${path} cannot be written: ${messageOf(error)}. Name a file on a disk that has room: flynn-host collect-debug FILE`,
      { cause: error },
    );
  }
}

/** Not a device that was named in the place of a file. */
async function removePart(path: string): Promise<void> {
  const isFile = await stat(path).then(
    (found) => found.isFile(),
    () => false,
  );
  if (isFile) await rm(path);
}

type Asked = Readonly<{ client: HttpClient; installation: Installation }>;

async function gather(tar: Pack, name: string, { client, installation }: Asked): Promise<void> {
  const secrets = secretsOf(installation.environment);
  const add = async (entry: string, find: () => Promise<string>): Promise<void> => {
    if (tar.destroyed) return;
    const text = await find().catch((error: unknown) => `could not be gathered: ${messageOf(error)}\n`);
    tar.entry({ name: `${name}/${entry}` }, redact(text, secrets));
  };
  const json = (value: unknown) => `${JSON.stringify(withoutEnvironment(value), undefined, 2)}\n`;
  await add('agent/status.json', async () => json(await client.call(routes.status, {})));
  await add('agent/jobs.json', async () => json(await client.call(routes.jobs, { query: {} })));
  await add('agent/stats.json', async () => json(await client.call(routes.stats, {})));
  await add('agent/hosts.json', async () => json(await client.call(routes.hosts, {})));
  await add(
    'agent/settings',
    async () =>
      `${Object.entries(installation.environment)
        .map((pair) => pair.join('='))
        .join('\n')}\n`,
  );
  for (const file of stateFiles) await add(`agent/${file}`, () => tailOf(join(installation.stateDir, file)));
  await add('agent/journal', () =>
    output('journalctl', [
      '-u',
      `flynn-host-${installation.environment['FLYNN_CLUSTER'] ?? 'default'}`,
      '-n',
      '5000',
      '-o',
      'cat',
    ]),
  );
  const socket = ['-H', `unix://${installation.environment['FLYNN_DOCKER_SOCKET'] ?? '/var/run/docker.sock'}`];
  await add('engine/info', () => output('docker', [...socket, 'info']));
  await add('engine/containers', () => output('docker', [...socket, 'ps', '-a', '--no-trunc']));
  await add('engine/images', () => output('docker', [...socket, 'images']));
  for (const [entry, program, ...args] of programs) await add(entry, () => output(program, args));
}

function secretsOf(environment: Readonly<Record<string, string>>): string[] {
  return Object.entries(environment)
    .filter(([name, value]) => /KEY|SECRET|TOKEN|PASSWORD/.test(name) && value.length >= 6)
    .map(([, value]) => value);
}

/** The known secrets wherever they stand, and what looks like one by its name. */
export function redact(text: string, secrets: readonly string[]): string {
  const known = secrets.reduce((rest, secret) => rest.replaceAll(secret, '(redacted)'), text);
  return known
    .replaceAll(/("[^"]*(?:key|secret|token|password)[^"]*"\s*:\s*")[^"]{6,}(")/gi, '$1(redacted)$2')
    .replaceAll(/\b([A-Z0-9_]*(?:KEY|SECRET|TOKEN|PASSWORD)[A-Z0-9_]*=)\S+/g, '$1(redacted)')
    .replaceAll(/(\/\/[^\s/:@]+:)[^\s/@]+@/g, '$1(redacted)@')
    .replaceAll(
      /-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----/g,
      '(redacted private key)',
    );
}

function output(program: string, args: readonly string[]): Promise<string> {
  return new Promise((done) => {
    const options = { timeout: programDeadlineMs, maxBuffer: 32 * 1024 * 1024 };
    execFile(program, args, options, (error, stdout, stderr) =>
      done(error === null ? stdout : `${stdout}${stderr}\n${messageOf(error)}\n`),
    );
  });
}

async function tailOf(path: string): Promise<string> {
  await using file = await open(path, 'r');
  const { size } = await file.stat();
  const start = Math.max(0, size - logTailBytes);
  const { buffer, bytesRead } = await file.read(Buffer.alloc(size - start), 0, size - start, start);
  return buffer.toString('utf8', 0, bytesRead);
}
