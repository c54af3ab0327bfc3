/**
 * For tests: a process of its own that keeps asking a port, each request over a new connection, and counts what went wrong:
 * `unheard` were ended or reset before a byte of an answer.
 */
import { connect } from 'node:net';

const [, , port = '0', clients = '1'] = process.argv;
const over = new AbortController();
const tally = { answered: 0, unheard: 0, failed: {} as Record<string, number> };
let asked = 0;

function fail(what: string): void {
  tally.failed[what] = (tally.failed[what] ?? 0) + 1;
}

async function ask(): Promise<void> {
  asked += 1;
  const { promise, resolve } = Promise.withResolvers<void>();
  const socket = connect(Number(port), '127.0.0.1');
  let heard = '';
  socket.on('data', (bytes: Buffer) => (heard += bytes.toString('latin1')));
  socket.on('connect', () => socket.write('GET / HTTP/1.1\r\nhost: app.test\r\nconnection: close\r\n\r\n'));
  socket.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'ECONNRESET' && heard === '') tally.unheard += 1;
    else fail(error.code ?? error.message);
  });
  socket.on('close', (hadError) => {
    if (/^HTTP\/1\.1 200 [^]*\r\n\r\nok$/.test(heard)) tally.answered += 1;
    else if (!hadError && heard === '') tally.unheard += 1;
    else if (!hadError) fail(/x-flynn-error: ([a-z-]+)/i.exec(heard)?.[1] ?? heard.slice(0, 40));
    resolve();
  });
  await promise;
}

async function keepAsking(): Promise<void> {
  while (!over.signal.aborted) await ask();
}

process.once('message', () => over.abort());
process.once('disconnect', () => process.exit(1));
const progress = setInterval(() => process.send?.({ asked }), 20);
await Promise.all(Array.from({ length: Number(clients) }, keepAsking));
clearInterval(progress);
process.send?.({ asked, tally }, () => process.exit(0));
