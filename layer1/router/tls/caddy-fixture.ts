/** A real authority for tests: the ACME server that Caddy has, with names of its own. From PATH, else of the test image. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { existsSync } from 'node:fs';
import { get } from 'node:https';
import type { IncomingMessage } from 'node:http';
import { waitFor } from '@flynn/kit/retry';
import { freePort } from '@flynn/kit/testing-ports';
import { testLabel } from '@flynn/kit/testing-label';

export type TestAuthority = AsyncDisposable & Readonly<{ directoryUrl: string; ca: string; output(): string }>;

const directoryPath = '/acme/local/directory';

/** It finds `names` at `address`, and asks `nameServer` for everything else. */
export async function startCaddy(options: {
  names: readonly string[];
  address: string;
  nameServer: string;
}): Promise<TestAuthority> {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-caddy-'));
  const port = await freePort();
  const root = join(folder, 'data/pki/authorities/local/root.crt');
  await writeFile(join(folder, 'Caddyfile'), configOf(folder, port));
  await writeFile(join(folder, 'hosts'), `127.0.0.1 localhost\n${options.address} ${options.names.join(' ')}\n`);
  await writeFile(join(folder, 'resolv.conf'), `nameserver ${options.nameServer}\n`);
  const caddy = spawn(...commandOf(folder), { stdio: ['ignore', 'pipe', 'pipe'] });
  const said: Buffer[] = [];
  caddy.stdout.on('data', (chunk: Buffer) => said.push(chunk));
  caddy.stderr.on('data', (chunk: Buffer) => said.push(chunk));
  const output = () => Buffer.concat(said).toString();
  const exited = once(caddy, 'exit');
  const stop = async () => {
    caddy.kill('SIGTERM');
    await exited;
    await rm(folder, { recursive: true, force: true });
  };
  try {
    // It has written who it is before it listens, and before it has a certificate for itself.
    const ca = await waitFor(
      async () => {
        if (caddy.exitCode !== null) throw new Error(`caddy ended: ${output()}`);
        const written = await readFile(root, 'utf8');
        return (await directoryOf(port, written)).includes('newNonce') && written;
      },
      { what: 'caddy', deadlineMs: 60_000 },
    );
    return {
      directoryUrl: `https://localhost:${port}${directoryPath}`,
      ca,
      output,
      [Symbol.asyncDispose]: stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function directoryOf(port: number, ca: string): Promise<string> {
  const at = { host: '127.0.0.1', port, path: directoryPath, headers: { host: `localhost:${port}` } };
  const signal = AbortSignal.timeout(5_000);
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  get({ ...at, servername: 'localhost', ca, agent: false, signal }, resolve).on('error', reject);
  return text(await promise);
}

function configOf(folder: string, port: number): string {
  return `{
  admin off
  skip_install_trust
  auto_https disable_redirects
  storage file_system ${folder}/data
}
https://localhost:${port} {
  bind 127.0.0.1
  tls internal
  acme_server
}
`;
}

/** With files of its own in the place of the machine's hosts and resolv.conf. */
function commandOf(folder: string): [string, string[]] {
  const hasCaddy = (process.env['PATH'] ?? '').split(delimiter).some((path) => existsSync(join(path, 'caddy')));
  if (!hasCaddy) {
    const image = process.env['FLYNN_TEST_PROXIES_IMAGE'] ?? 'flynn/proxies';
    const files = ['hosts', 'resolv.conf'].flatMap((name) => ['-v', `${join(folder, name)}:/etc/${name}:ro`]);
    const run = [
      'run',
      '--rm',
      '--init',
      '--label',
      testLabel,
      '--network',
      'host',
      '-v',
      `${folder}:${folder}`,
      ...files,
    ];
    return ['docker', [...run, image, 'caddy', 'run', '--adapter', 'caddyfile', '--config', join(folder, 'Caddyfile')]];
  }
  const script = `mount --bind ${folder}/hosts /etc/hosts && mount --bind ${folder}/resolv.conf /etc/resolv.conf &&
    exec caddy run --adapter caddyfile --config ${folder}/Caddyfile`;
  return ['unshare', ['--mount', 'sh', '-c', script]];
}
