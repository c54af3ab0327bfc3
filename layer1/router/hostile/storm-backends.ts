/** For tests: backends that answer with whatever, whenever, and break off in the middle of it. */
import { createServer } from 'node:net';
import type { Socket } from 'node:net';
import { setImmediate as turn } from 'node:timers/promises';
import { systemClock } from '@flynn/kit/clock';
import { reset } from '../reset.ts';
import { track } from '../testing.ts';
import type { Backend, Owner } from '../testing.ts';
import { frame, frameTypes, framesIn, preface } from './frames.ts';
import { startRawBackend } from './raw-backend.ts';
import { answerFrames, oddFrames, oddSettings } from './storm-http2.ts';
import { chance, oddBody, oddLines, of, statuses, upTo } from './storm-words.ts';
import type { Dice } from './storm-words.ts';

export function startHttp1Storm(t: Owner, dice: Dice): Promise<Backend> {
  return startRawBackend(t, (socket) => {
    let all = '';
    for (let hints = upTo(dice, 2); hints > 0; hints -= 1)
      all += `HTTP/1.1 103 Early Hints\r\n${oddLines(dice, 2)}\r\n`;
    const { lines, body } = oddBody(dice);
    const upgrade = of(dice, ['', '', '', 'Connection: Upgrade\r\nUpgrade: websocket\r\n']);
    all += `HTTP/1.${of(dice, [1, 1, 1, 0])} ${of(dice, statuses)} Word\r\n${upgrade}${lines}${oddLines(dice, 3)}\r\n${body}`;
    if (chance(dice, 0.2)) all = all.slice(0, upTo(dice, all.length));
    const cut = upTo(dice, all.length);
    void say(socket, dice, [all.slice(0, cut), all.slice(cut)]);
  });
}

/** SETTINGS first, mostly; then something for each request, and now and then for none. */
export function startH2cStorm(t: Owner, dice: Dice): Promise<Backend> {
  const server = createServer({ noDelay: true, allowHalfOpen: true }, (socket) => {
    let unread: Buffer = Buffer.alloc(0);
    let isBegun = false;
    socket.on('end', () => socket.end());
    if (chance(dice, 0.05)) socket.pause();
    if (chance(dice, 0.95)) void say(socket, dice, [oddSettings(dice)], false);
    socket.on('data', (bytes: Buffer) => {
      unread = Buffer.concat([unread, bytes]);
      if (!isBegun && unread.length < preface.length) return;
      if (!isBegun) unread = unread.subarray(preface.length);
      isBegun = true;
      const { frames, rest } = framesIn(unread);
      unread = rest;
      for (const { type, flags, stream } of frames) {
        if (type === frameTypes.settings && (flags & 1) === 0) void say(socket, dice, [frame('settings', 1, 0)], false);
        if (type !== frameTypes.headers) continue;
        const pieces = Array.from({ length: upTo(dice, 4) }, () => oddFrames(dice, stream));
        if (chance(dice, 0.9)) pieces.unshift(answerFrames(dice, stream));
        void say(socket, dice, pieces, chance(dice, 0.2));
      }
    });
  });
  return track(t, server);
}

async function say(socket: Socket, dice: Dice, pieces: readonly (string | Buffer)[], mayLeave = true): Promise<void> {
  for (const piece of pieces) {
    if (chance(dice, 0.4)) await turn();
    else if (chance(dice, 0.3)) await systemClock.sleep(upTo(dice, 30));
    if (!socket.writable) return;
    socket.write(piece, 'latin1');
  }
  if (!mayLeave) return;
  if (chance(dice, 0.3)) await systemClock.sleep(upTo(dice, 100));
  const how = of(dice, ['stays', 'stays', 'ends', 'is gone', 'resets']);
  if (how === 'resets') reset(socket);
  else if (how === 'is gone') socket.destroy();
  else if (how === 'ends') socket.end();
}
