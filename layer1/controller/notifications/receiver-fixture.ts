/** A receiver of notifications, which answers as a test says and keeps what it got. For tests. */
import { createHmac } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { IncomingHttpHeaders, ServerResponse } from 'node:http';

export type Got = Readonly<{ headers: IncomingHttpHeaders; path: string; body: string }>;

export interface TestReceiver extends AsyncDisposable {
  readonly url: string;
  readonly got: readonly Got[];
  /** From now on. Default: 204. */
  answerWith(answer: (response: ServerResponse) => void): void;
}

export async function startReceiver(host = '127.0.0.1'): Promise<TestReceiver> {
  const got: Got[] = [];
  let answer = (response: ServerResponse): unknown => response.writeHead(204).end();
  const server = createServer((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', (chunk: string) => (body += chunk));
    request.on('end', () => {
      got.push({ headers: request.headers, path: request.url ?? '', body });
      answer(response);
    });
  }).listen(0, host);
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return {
    url: `http://${host}:${port}`,
    got,
    answerWith(next) {
      answer = next;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

/** As docs/notifications.md tells receivers to do it, by nothing of ours. */
export function isSigned({ headers, body }: Got, secret: string, now: number): boolean {
  const [id, timestamp, signatures] = ['webhook-id', 'webhook-timestamp', 'webhook-signature'].map((name) =>
    String(headers[name]),
  );
  if (Math.abs(now / 1_000 - Number(timestamp)) > 300) return false;
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
  const expected = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  return (signatures ?? '').split(' ').includes(`v1,${expected}`);
}
