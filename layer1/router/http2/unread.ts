/** How much of the bodies that a client sends lies unread here, and how much more may it send? */
import type { ServerHttp2Session, ServerHttp2Stream } from 'node:http2';
import { Block, alone, smallBytes } from './block.ts';

/** A client that has less left than this, though there is room for as much as that, may be waiting to be told of it. */
const littleBytes = 16_384;
const roomBytes = 65_536;

/**
 * node:http2 opens the window of a connection again with whatever comes, read or not, so that of itself each stream's alone
 * would count. Here what lies unread makes the connection's smaller by as much: nghttp2 tells the client of that by not telling
 * it of more (RFC 9113 6.9). Bodies that are read as they come change nothing.
 *
 * INVARIANT. What lies unread, and what the client may still send, are together no more than the window and a frame.
 */
export class Unread {
  readonly #session: ServerHttp2Session;
  /** A byte more after each word that there is room: see `#nudge`. */
  #windowBytes: number;
  #unread = 0;
  /** As nghttp2 has it. */
  #saidBytes: number;
  /** The client may have come to the end of its window. */
  #isTight = false;
  #isNudging = false;

  constructor(session: ServerHttp2Session, windowBytes: number) {
    this.#session = session;
    this.#windowBytes = windowBytes;
    this.#saidBytes = windowBytes;
    session.setLocalWindowSize(windowBytes);
  }

  /** A stream with a body, before anything of that comes. */
  watch(stream: ServerHttp2Stream): void {
    const push = stream.push.bind(stream);
    const read = stream.read.bind(stream);
    let small = new Block();
    let counted = 0;
    const count = () => {
      const unread = stream.destroyed ? 0 : stream.readableLength + small.length;
      if (unread === counted) return;
      this.#add(unread - counted);
      counted = unread;
    };
    const giveSmall = () => {
      if (small.length === 0) return;
      const bytes = small.bytes;
      small = new Block();
      push(bytes);
    };
    stream.push = (piece: Buffer | null) => {
      const isRead = stream.readableFlowing === true && stream.readableLength === 0;
      if (isRead || piece === null) {
        giveSmall();
        const wantsMore = push(piece);
        count();
        return wantsMore;
      }
      if (piece.length >= smallBytes || !small.hasRoom(piece)) giveSmall();
      if (piece.length >= smallBytes) push(alone(piece));
      else small.add(piece);
      count();
      return counted < stream.readableHighWaterMark;
    };
    stream.read = (size?: number) => {
      giveSmall();
      const piece: unknown = read(size);
      count();
      return piece;
    };
    stream.once('close', count);
  }

  #add(bytes: number): void {
    this.#unread += bytes;
    if (this.#session.destroyed) return;
    this.#say(this.#windowBytes - this.#unread);
    if (this.#saidBytes < roomBytes) this.#isTight = true;
    else if (this.#isTight && bytes < 0) this.#nudge();
  }

  #say(bytes: number): void {
    const saidBytes = Math.max(0, bytes);
    if (saidBytes !== this.#saidBytes) this.#session.setLocalWindowSize(saidBytes);
    this.#saidBytes = saidBytes;
  }

  /**
   * nghttp2 tells of room again when something comes, and from who has nothing left nothing does. What makes the window larger
   * than it ever was is told at once, and a byte is enough. Settings that change nothing have it leave, and their answer says
   * that the client knows; a ping would not be sent by a session that is drained.
   */
  #nudge(): void {
    if (this.#isNudging || this.#session.destroyed || this.#saidBytes < roomBytes) return;
    this.#isTight = (this.#session.state.localWindowSize ?? 0) < littleBytes;
    if (!this.#isTight) return;
    this.#isNudging = true;
    this.#session.settings({}, (error) => {
      this.#isNudging = false;
      // Else nothing was sent, and asking again at once would go on for ever.
      if (error === null && this.#isTight) this.#nudge();
    });
    this.#windowBytes += 1;
    this.#say(this.#windowBytes);
    this.#say(this.#windowBytes - this.#unread);
  }
}
