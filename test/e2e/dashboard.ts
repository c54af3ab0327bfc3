import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { raceAbort, waitFor } from '@flynn/kit/retry';
import { WebSocket } from 'ws';
import type { TestCluster } from '../test-cluster.ts';

/** Of one answer. */
const deadlineMs = 30_000;
/** A job has to begin, and to end. */
const terminalMs = 60_000;

/** A browser at the cluster's web page, over TLS, with the cookie it was given. */
class Browser {
  readonly #cluster: TestCluster;
  readonly #host: string;
  #cookie = '';

  constructor(cluster: TestCluster) {
    this.#cluster = cluster;
    this.#host = `dashboard.${cluster.domain}`;
  }

  get #headers(): Record<string, string> {
    return { host: this.#host, origin: `https://${this.#host}`, cookie: this.#cookie };
  }

  /** Until the answer's head is there: what is streamed after it has a deadline of whoever reads it. */
  async open(method: string, path: string, body?: object): Promise<IncomingMessage> {
    const late = new AbortController();
    const deadline = setTimeout(() => late.abort(), deadlineMs);
    const asked = request({
      host: this.#cluster.host.address,
      servername: this.#host,
      method,
      path,
      agent: false,
      rejectUnauthorized: false,
      signal: late.signal,
      headers: { ...this.#headers, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
    });
    asked.end(body === undefined ? undefined : JSON.stringify(body));
    const heard = once(asked, 'response') as Promise<[IncomingMessage]>;
    const [answer] = await heard.finally(() => clearTimeout(deadline));
    const [given] = answer.headers['set-cookie'] ?? [];
    if (given !== undefined) this.#cookie = given.split(';', 1)[0] ?? '';
    return answer;
  }

  async ask(method: string, path: string, body?: object): Promise<{ status: number; body: string }> {
    const answer = await this.open(method, path, body);
    return { status: answer.statusCode ?? 0, body: await bodyOf(answer) };
  }

  terminal(path: string): WebSocket {
    const tls = { servername: this.#host, rejectUnauthorized: false };
    return new WebSocket(`wss://${this.#cluster.host.address}${path}`, { ...tls, headers: this.#headers });
  }
}

function bodyOf(answer: IncomingMessage): Promise<string> {
  return raceAbort(text(answer), AbortSignal.timeout(deadlineMs));
}

/** What a terminal says, and how it ends. */
async function watched(terminal: WebSocket, onOutput: (output: string) => void): Promise<unknown> {
  let output = '';
  let last: unknown;
  terminal.on('message', (data: Buffer, isBinary) => {
    if (!isBinary) last = JSON.parse(data.toString());
    else onOutput((output += data.toString()));
  });
  await once(terminal, 'close', { signal: AbortSignal.timeout(terminalMs) });
  return last;
}

/** What its jobs took when they were looked at last, as the page draws it: of all types. */
async function memoryOf(browser: Browser, app: string): Promise<number> {
  const { status, body } = await browser.ask('GET', `/api/apps/${app}/figures`);
  assert.equal(status, 200, body);
  const { types } = JSON.parse(body) as { types: { memoryBytes: (number | null)[] }[] };
  return types.reduce((sum, { memoryBytes }) => sum + (memoryBytes.at(-1) ?? 0), 0);
}

/** `app` runs, and has said something. */
export function describeDashboard(theCluster: () => TestCluster, { app }: { app: string }): void {
  test('the web page has its own name, over TLS alone, and nobody is in before a login', async () => {
    const cluster = theCluster();
    const inClear = await cluster.get('dashboard', '/apps');
    const place = `https://dashboard.${cluster.domain}/apps`;
    assert.deepEqual([inClear.status, inClear.headers['location']], [308, place]);
    const browser = new Browser(cluster);
    const page = await browser.open('GET', '/apps/anything');
    assert.equal(page.statusCode, 200);
    assert.match(String(page.headers['content-security-policy']), /frame-ancestors 'none'/);
    const [, script = ''] = /src="(\/assets\/main-[^"]+\.js)"/.exec(await bodyOf(page)) ?? [];
    assert.equal((await browser.ask('GET', script)).status, 200);
    assert.equal((await browser.ask('GET', '/api/apps')).status, 401);
  });

  test('who logs in sees apps and logs as they come, and has a terminal; a viewer has none; who logs out is out', async () => {
    const cluster = theCluster();
    const { link } = JSON.parse((await cluster.flynn(['dashboard', '--json'])).stdout) as { link: string };
    const [page, token] = link.split('#');
    assert.equal(page, `https://dashboard.${cluster.domain}/login`);
    const developer = new Browser(cluster);
    assert.equal((await developer.ask('POST', '/session', { token })).status, 200);
    assert.equal((await new Browser(cluster).ask('POST', '/session', { token })).status, 401, 'a link is good once');
    const listed = JSON.parse((await developer.ask('GET', '/api/apps')).body) as { name: string }[];
    assert.ok(listed.some(({ name }) => name === app));

    const log = await developer.open('GET', `/api/apps/${app}/log?follow=true&lines=0`);
    // It is left while it goes on.
    log.on('error', () => undefined);
    const terminal = developer.terminal(`/terminal/run?app=${app}&columns=99&rows=33`);
    let isTyped = false;
    let hasSize = false;
    const shown = watched(terminal, (output) => {
      if (!isTyped) terminal.send(Buffer.from('stty size; exit 7\r'));
      isTyped = true;
      hasSize ||= output.includes('33 99');
    });
    // The job that the terminal is in begins meanwhile: each has its own minute.
    const [last] = await Promise.all([shown, once(log, 'data', { signal: AbortSignal.timeout(terminalMs) })]);
    assert.deepEqual(last, { type: 'exit', code: 7 });
    assert.ok(hasSize, 'the size of the page is the terminal’s');

    const scoped = await cluster.flynn(['token', 'create', '--scope', 'viewer', '--json']);
    const viewer = new Browser(cluster);
    const viewing = (JSON.parse(scoped.stdout) as { token: string }).token;
    assert.equal((await viewer.ask('POST', '/session', { token: viewing })).status, 200);
    assert.equal((await viewer.ask('DELETE', `/api/apps/${app}`)).status, 403);
    await waitFor(async () => (await memoryOf(viewer, app)) > 1024 ** 2, {
      what: `what ${app} takes of memory to be known, which is looked at every 15 s`,
      deadlineMs: 120_000,
    });
    const refused = await watched(viewer.terminal(`/terminal/run?app=${app}`), () => undefined);
    assert.deepEqual((refused as { code?: string }).code, 'denied');

    assert.equal((await developer.ask('DELETE', '/session')).status, 204);
    assert.equal((await developer.ask('GET', '/session')).status, 401);
    log.destroy();
    const audited = JSON.parse((await cluster.flynn(['audit', '--json'])).stdout) as {
      action: string;
      from: { address: string };
    }[];
    const own = audited.find(({ action }) => action === 'POST /tokens/exchange');
    // Not the dashboard's container, which is in the cluster's network.
    assert.doesNotMatch(own?.from.address ?? '100.100.', /^100\.100\./);
  });
}
