/** The router as a process of its own, as it runs in a cluster, and the platform that it asks. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { FlynnError } from '@flynn/kit/errors';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { ControlPlane } from '../testing.ts';
import type { Owner } from '../testing.ts';
import { CertificatePlane } from '../tls/testing.ts';
import { freePort } from '@flynn/kit/testing-ports';
import { talk } from './talk.ts';

const routerProgram = join(import.meta.dirname, '../main.ts');

/** One server that is both the controller and discovery. */
export async function startPlane(
  t: Owner,
): Promise<{ plane: ControlPlane; certificates: CertificatePlane; url: string }> {
  const plane = new ControlPlane();
  const certificates = new CertificatePlane();
  const handlers = [...plane.handlers, ...certificates.handlers];
  const server = await startServer({ name: 'plane', handlers, host: '127.0.0.1', port: 0, log: silentLogger() });
  plane.up('controller', new URL(server.url).host);
  t.after(() => server.close());
  return { plane, certificates, url: server.url };
}

/** One process that carries the traffic itself. */
export function routerEnv(options: {
  planeUrl: string;
  port: number;
  tlsPort: number;
  statusPort: number;
}): Record<string, string> {
  return {
    FLYNN_KEY: 'test',
    FLYNN_DISCOVERY_URL: options.planeUrl,
    FLYNN_HTTP_PORT: String(options.port),
    FLYNN_HTTPS_PORT: String(options.tlsPort),
    FLYNN_ROUTER_WORKERS: '1',
    PORT: String(options.statusPort),
  };
}

export type RouterProcess = { readonly port: number; readonly pid: number; residentMb(): number };

/** Resolves when it answers. */
export async function startRouterProcess(t: Owner, planeUrl: string): Promise<RouterProcess> {
  const [port, tlsPort, statusPort] = [await freePort(), await freePort(), await freePort()];
  const child = spawn(process.execPath, [routerProgram], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { PATH: process.env['PATH'], ...routerEnv({ planeUrl, port, tlsPort, statusPort }) },
  });
  let said = '';
  child.stderr.on('data', (chunk) => (said = (said + String(chunk)).slice(-2_000)));
  t.after(async () => {
    if (child.exitCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  });
  const { pid } = child;
  await waitFor(async () => (await talk(port, ['GET / HTTP/1.0\r\n\r\n'], { quietMs: 1_000 })).answer !== '', {
    what: 'the router to answer',
    deadlineMs: 60_000,
  });
  if (pid === undefined || child.exitCode !== null) throw new FlynnError('internal', `the router ended: ${said}`);
  return {
    port,
    pid,
    residentMb: () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1_024,
  };
}
