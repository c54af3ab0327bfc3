/** For tests: clients that pipeline and backends that close, each at any step of a message, by the dice of a seed. */
import { connect, createServer } from 'node:net';
import type { Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { seeded } from '../policy/testing.ts';
import { track } from '../testing.ts';
import type { Backend, Owner } from '../testing.ts';

type Dice = () => number;
const of = <T>(dice: Dice, from: readonly [T, ...T[]]): T => from[Math.floor(dice() * from.length)] ?? from[0];

const answers = [
  'HTTP/1.1 204 No Content\r\n\r\n',
  'HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n',
  'HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n',
  'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n',
  'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n',
  'HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n',
  'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
  'HTTP/1.0 200 OK\r\n\r\nuntil the end',
] as const;

const endings = ['stays', 'stays', 'ends', 'ends in a while', 'resets', 'is gone'] as const;

/** Answers every request it has got, sooner or later, whole or in part, or ends the connection. */
export function startDicedBackend(t: Owner, seed: number): Promise<Backend> {
  const dice = seeded(seed);
  const server = createServer({ noDelay: true, allowHalfOpen: true }, (socket) => {
    let unread = '';
    let isBusy = false;
    socket.on('end', () => socket.end());
    const proceed = (): void => {
      const end = unread.indexOf('\r\n\r\n');
      if (isBusy || end < 0) return;
      const body = bodyEndOf(unread, end + 4);
      const isEarly = dice() < 0.3;
      if (body === undefined && !isEarly) return;
      // Of an early answer the body is not told from what follows, so nothing follows.
      unread = body === undefined ? '' : unread.slice(body);
      isBusy = true;
      void answer(socket, dice, body === undefined).then((stays) => {
        isBusy = !stays;
        proceed();
      });
    };
    socket.on('data', (chunk) => {
      unread += chunk.toString('latin1');
      proceed();
    });
  });
  return track(t, server);
}

/** Whether it takes another request. */
async function answer(socket: Socket, dice: Dice, isEarly: boolean): Promise<boolean> {
  const whole = of(dice, answers);
  const isUntilEnd = whole.startsWith('HTTP/1.0') || whole.includes('close');
  const ending = of(dice, endings);
  for (let i = Math.floor(dice() * 3); i > 0; i -= 1) await turn();
  const isWhole = dice() < 0.8;
  const until = isWhole ? whole.length : Math.floor(dice() * whole.length);
  const cut = dice() < 0.5 ? until : Math.floor(dice() * until);
  socket.write(whole.slice(0, cut), 'latin1');
  if (cut < until) {
    await turn();
    socket.write(whole.slice(cut, until), 'latin1');
  }
  if (ending === 'stays' && isWhole && !isUntilEnd && !isEarly) return true;
  if (ending === 'ends in a while') await turn();
  if (ending === 'resets') socket.resetAndDestroy();
  else if (ending === 'is gone') socket.destroy();
  else socket.end();
  return false;
}

/** Where the body that begins here ends; undefined while it is not all there. */
function bodyEndOf(text: string, from: number): number | undefined {
  const head = text.slice(0, from).toLowerCase();
  if (head.includes('\r\ntransfer-encoding:')) {
    const end = text.indexOf('0\r\n\r\n', from);
    return end < 0 ? undefined : end + 5;
  }
  const end = from + Number(/\r\ncontent-length: *(\d+)/.exec(head)?.[1] ?? 0);
  return end <= text.length ? end : undefined;
}

const bodies = [
  'GET / HTTP/1.1\r\nHost: app.test\r\n~\r\n',
  'HEAD / HTTP/1.1\r\nHost: app.test\r\n~\r\n',
  'POST / HTTP/1.1\r\nHost: app.test\r\n~Content-Length: 0\r\n\r\n',
  'POST / HTTP/1.1\r\nHost: app.test\r\n~Content-Length: 5\r\n\r\nabcde',
  'POST / HTTP/1.1\r\nHost: app.test\r\nExpect: 100-continue\r\n~Content-Length: 5\r\n\r\nabcde',
  'PUT / HTTP/1.1\r\nHost: app.test\r\n~Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n',
] as const;

/** What a client of that seed says: the last of its requests asks for the connection's end, or it ends its side itself. */
export function wordsOf(seed: number): { pieces: string[]; ends: boolean } {
  const dice = seeded(seed);
  const count = 1 + Math.floor(dice() * 4);
  const ends = dice() < 0.4;
  let all = '';
  for (let i = 0; i < count; i += 1) {
    const isLast = i === count - 1 && !ends;
    all += of(dice, bodies).replace('~', isLast ? 'Connection: close\r\n' : '');
  }
  // In the middle of something.
  if (ends && dice() < 0.5) all = all.slice(0, Math.floor(dice() * all.length));
  const pieces: string[] = [];
  while (all.length > 0) {
    const length = dice() < 0.5 ? all.length : 1 + Math.floor(dice() * all.length);
    pieces.push(all.slice(0, length));
    all = all.slice(length);
  }
  return { pieces, ends };
}

/** Whether the connection was over within that time; what was answered. */
export async function converse(
  port: number,
  seed: number,
  options: { deadlineMs: number },
): Promise<{ isOver: boolean; answer: string }> {
  const { pieces, ends } = wordsOf(seed);
  const socket = connect({ port, host: '127.0.0.1', noDelay: true, allowHalfOpen: true });
  let answer = '';
  socket.on('data', (chunk: Buffer) => (answer += chunk.toString('latin1')));
  socket.on('error', () => socket.destroy());
  socket.on('end', () => socket.end());
  const closed = new Promise<boolean>((resolve) => socket.once('close', () => resolve(true)));
  const late = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => late.resolve(false), options.deadlineMs);
  for (const [index, piece] of pieces.entries()) {
    if (index > 0) await turn();
    if (socket.writable) socket.write(piece, 'latin1');
  }
  if (ends) socket.end();
  const isOver = await Promise.race([closed, late.promise]);
  clearTimeout(timer);
  socket.destroy();
  return { isOver, answer };
}
