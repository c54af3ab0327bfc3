/** One line for each request, for whoever wants them. */
import { wholeBytes } from '@flynn/kit/pipe-lines';
import type { Ending, RequestHead } from '../exchange.ts';

export const accessLogFormats = ['off', 'json', 'combined'] as const;
export type AccessLogFormat = (typeof accessLogFormats)[number];

/** A request that has ended. */
export type Access = {
  readonly timeMs: number;
  readonly head: Pick<RequestHead, 'method' | 'target' | 'host' | 'protocol' | 'header'>;
  readonly requestId: string;
  readonly clientAddress: string;
  readonly isTls: boolean;
  readonly ending: Ending;
  readonly tookMs: number;
  /** Of an answer of the router itself. */
  readonly code: string | undefined;
  readonly route: { readonly id: string; readonly appId: string } | undefined;
  readonly backend: string | undefined;
};

/** Where lines go: a stream, whose `false` says that it takes no more until `drain`. */
export type LogStream = {
  write(text: string): boolean;
  once(event: 'drain', listener: () => void): unknown;
};

const flushBytes = 65_536;
const maxBufferedBytes = 4_194_304;
const flushMs = 200;
/** Of each part of a line that is too long. */
const shownCharacters = 300;

/**
 * INVARIANTS. A line is one line, whatever a client sends; the parts of one above 4 KB are shortened. Lines wait for a fifth of
 * a second or 64 KB and are written at once. When the reader is slower than requests come, 4 MB are kept and the rest is counted
 * and told of, never waited for.
 */
export class AccessLog implements Disposable {
  readonly #format: (access: Access) => string;
  readonly #stream: LogStream;
  #lines: string[] = [];
  #bytes = 0;
  #lost = 0;
  #isBlocked = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(options: { format: Exclude<AccessLogFormat, 'off'>; stream: LogStream }) {
    this.#format = options.format === 'json' ? jsonLine : combinedLine;
    this.#stream = options.stream;
  }

  write(access: Access): void {
    if (this.#bytes >= maxBufferedBytes) {
      this.#lost += 1;
      return;
    }
    const line = this.#format(access);
    this.#add(isTooLong(line) ? this.#format(shortened(access)) : line);
    if (this.#bytes >= flushBytes) this.flush();
    else this.#timer ??= setTimeout(() => this.flush(), flushMs).unref();
  }

  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#isBlocked || this.#lines.length === 0) return;
    if (this.#lost > 0) this.#add(`{"level":"warn","msg":"lines of the access log were lost","lost":${this.#lost}}\n`);
    this.#lost = 0;
    const text = this.#lines.join('');
    this.#lines = [];
    this.#bytes = 0;
    if (this.#stream.write(text)) return;
    this.#isBlocked = true;
    this.#stream.once('drain', () => {
      this.#isBlocked = false;
      this.flush();
    });
  }

  [Symbol.dispose](): void {
    this.flush();
    clearTimeout(this.#timer);
  }

  #add(line: string): void {
    this.#lines.push(line);
    this.#bytes += line.length;
  }
}

/** No character of a head is more than two bytes, so most are not counted. */
function isTooLong(line: string): boolean {
  return line.length > wholeBytes / 2 && Buffer.byteLength(line) > wholeBytes;
}

/** So that it stays one piece beside what other processes write to the same pipe. */
function shortened({ head, ...access }: Access): Access {
  const short = (text: string) => (text.length > shownCharacters ? `${text.slice(0, shownCharacters)}…` : text);
  const { method, target, host, protocol } = head;
  return {
    ...access,
    head: {
      method: short(method),
      target: short(target),
      host: short(host),
      protocol,
      header(name) {
        const value = head.header(name);
        return value === undefined ? undefined : short(value);
      },
    },
  };
}

function jsonLine(access: Access): string {
  const { head, ending, route } = access;
  const line = {
    time: new Date(access.timeMs).toISOString(),
    msg: 'request',
    requestId: access.requestId,
    client: access.clientAddress,
    method: head.method,
    scheme: access.isTls ? 'https' : 'http',
    host: head.host,
    target: head.target,
    protocol: head.protocol,
    status: ending.status,
    how: ending.how,
    code: access.code,
    ms: Math.round(access.tookMs * 100) / 100,
    bytesIn: ending.bytesIn,
    bytesOut: ending.bytesOut,
    app: route?.appId,
    route: route?.id,
    backend: access.backend,
    userAgent: head.header('user-agent'),
    referer: head.header('referer'),
  };
  return `${JSON.stringify(line)}\n`;
}

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** As Apache's and nginx's: https://httpd.apache.org/docs/2.4/logs.html#combined */
function combinedLine(access: Access): string {
  const { head, ending } = access;
  const request = `${quotable(head.method)} ${quotable(head.target)} ${head.protocol.replace('HTTP/2', 'HTTP/2.0')}`;
  const bytes = ending.bytesOut === 0 ? '-' : String(ending.bytesOut);
  const [referer, agent] = [head.header('referer') ?? '-', head.header('user-agent') ?? '-'].map(quotable);
  return `${access.clientAddress} - - [${commonTime(access.timeMs)}] "${request}" ${ending.status} ${bytes} "${referer}" "${agent}"\n`;
}

/** `10/Oct/2000:13:55:36 +0000` */
function commonTime(timeMs: number): string {
  const time = new Date(timeMs);
  const two = (value: number) => String(value).padStart(2, '0');
  const day = `${two(time.getUTCDate())}/${months[time.getUTCMonth()]}/${time.getUTCFullYear()}`;
  return `${day}:${two(time.getUTCHours())}:${two(time.getUTCMinutes())}:${two(time.getUTCSeconds())} +0000`;
}

/** What could end the quotes or the line is written `\xHH`, as nginx does. */
function quotable(text: string): string {
  return text.replace(/["\\]|[^\x20-\x7e]/g, (char) => {
    const code = char.charCodeAt(0);
    return code < 256
      ? `\\x${code.toString(16).toUpperCase().padStart(2, '0')}`
      : `\\u${code.toString(16).padStart(4, '0')}`;
  });
}
