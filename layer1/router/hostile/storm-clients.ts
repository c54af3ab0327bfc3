/** For tests: clients that say whatever, whenever, and leave in the middle of it. */
import { once } from 'node:events';
import { connect } from 'node:net';
import type { Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { systemClock } from '@flynn/kit/clock';
import { reset, runsOver } from '../reset.ts';
import { preface, frame } from './frames.ts';
import { oddFrames, oddSettings, requestFrames } from './storm-http2.ts';
import { chance, oddBody, oddLines, of, upTo } from './storm-words.ts';
import type { Dice } from './storm-words.ts';

export type Door = { readonly port: number; readonly isTls: boolean; readonly protocol: 'http/1.1' | 'h2' };

/** Resolves when it has left. */
export async function visit(door: Door, host: string, dice: Dice): Promise<void> {
  const tcp = connect({ port: door.port, host: '127.0.0.1', noDelay: true, allowHalfOpen: chance(dice, 0.5) });
  const socket = door.isTls ? secured(tcp, door.protocol) : tcp;
  for (const one of new Set([tcp, socket])) one.on('error', () => one.destroy());
  if (chance(dice, 0.9)) socket.resume();
  const pieces = door.protocol === 'h2' ? http2Pieces(dice, host) : http1Pieces(dice, host);
  for (const piece of pieces) {
    if (chance(dice, 0.5)) await turn();
    else if (chance(dice, 0.3)) await systemClock.sleep(upTo(dice, 20));
    if (!socket.writable) break;
    socket.write(piece);
  }
  await leave(tcp, socket, dice);
}

function secured(tcp: Socket, protocol: string): Socket {
  const options = { servername: 'app.test', rejectUnauthorized: false, ALPNProtocols: [protocol] };
  const socket = connectTls({ socket: tcp, ...options });
  runsOver(socket, tcp);
  return socket;
}

async function leave(tcp: Socket, socket: Socket, dice: Dice): Promise<void> {
  const how = of(dice, ['stays', 'ends', 'is gone', 'resets', 'pauses']);
  if (how === 'pauses') socket.pause();
  if (how === 'stays' || how === 'pauses' || how === 'ends') {
    if (how === 'ends') socket.end();
    const closed = once(tcp, 'close').catch(() => undefined);
    if (!tcp.closed) await Promise.race([closed, systemClock.sleep(of(dice, [5, 50, 50, 600]))]);
  }
  if (how === 'resets') reset(socket);
  socket.destroy();
  tcp.destroy();
}

function http1Pieces(dice: Dice, host: string): Buffer[] {
  let all = '';
  for (let count = 1 + upTo(dice, 2); count > 0; count -= 1) {
    const method = of(dice, ['GET', 'GET', 'HEAD', 'POST', 'POST', 'PUT', 'DELETE', 'CONNECT']);
    const version = of(dice, ['1.1', '1.1', '1.1', '1.0', '1.0', '2.0']);
    const upgrade = chance(dice, 0.1)
      ? `Connection: Upgrade\r\nUpgrade: ${of(dice, ['websocket', 'h2c', 'other'])}\r\n`
      : '';
    const expect = chance(dice, 0.1) ? 'Expect: 100-continue\r\n' : '';
    const { lines, body } = method === 'GET' ? { lines: '', body: '' } : oddBody(dice);
    all += `${method} / HTTP/${version}\r\nHost: ${host}\r\n${upgrade}${expect}${lines}${oddLines(dice, 3)}\r\n${body}`;
  }
  if (chance(dice, 0.3)) all = all.slice(0, upTo(dice, all.length));
  const cut = upTo(dice, all.length);
  return [all.slice(0, cut), all.slice(cut)].map((text) => Buffer.from(text, 'latin1'));
}

function http2Pieces(dice: Dice, host: string): Buffer[] {
  const pieces: Buffer[] = [Buffer.concat([preface, oddSettings(dice)])];
  if (chance(dice, 0.9)) pieces.push(frame('settings', 1, 0));
  for (let i = 0; i <= upTo(dice, 5); i += 1) {
    pieces.push(requestFrames(dice, host, 2 * i + 1));
    for (let more = upTo(dice, 4); more > 0; more -= 1) pieces.push(oddFrames(dice, 2 * i + 1));
  }
  // What is not whole.
  if (chance(dice, 0.2)) pieces.push(oddFrames(dice, 1).subarray(0, upTo(dice, 12)));
  return pieces;
}
