/** What does the head of a backend's answer say (RFC 9112)? Pure; as strict as with requests. */
import { ConnectionList, HeadFields, headLimits, HeadProblem, headTooLarge, isValue, lengthIn } from './fields.ts';

/** How the body ends: there is none, after that many bytes, as its chunks say, or with the connection. */
export type Framing = 'none' | 'length' | 'chunked' | 'until-close';

export class Http1ResponseHead {
  status = 0;
  /** With the space before it; empty if there is none. */
  reason = '';
  framing: Framing = 'until-close';
  length = 0;
  bytes = 0;
  /** Where the line after the status begins. */
  lineEnd = 0;
  /** The status stands there as a client may read it. */
  isLinePlain = false;
  /** The backend means to go on with this connection. */
  keepsAlive = true;
  named: readonly string[] | undefined = undefined;
  upgrade: string | undefined = undefined;
  readonly fields = new HeadFields();
}

function broken(what: string): HeadProblem {
  return new HeadProblem(502, 'backend-broke', what);
}

/** As with requests. Of an answer to HEAD the framing says what the body would be; there is none. */
export function readResponseHead(
  text: string,
  bytes?: Uint8Array,
  from?: number,
): Http1ResponseHead | HeadProblem | undefined {
  const head = new Http1ResponseHead();
  const isOld = text.startsWith('HTTP/1.0 ');
  if (!isOld && !text.startsWith('HTTP/1.1 ')) return broken('the answer does not begin with a status');
  const status = statusAt(text, 9);
  if (status < 100) return broken('the status is not a number');
  let i = 12;
  if (text.charCodeAt(i) !== 0x20 && text.charCodeAt(i) !== 13) return broken('the status is not a number');
  while (isValue[text.charCodeAt(i)] === 1) i += 1;
  if (text.charCodeAt(i) !== 13 || text.charCodeAt(i + 1) !== 10) return broken('the status line is broken');
  head.status = status;
  head.reason = text.slice(12, i);
  head.lineEnd = i + 2;
  head.isLinePlain = !isOld && head.reason !== '';
  const end = head.fields.read(text, head.lineEnd, bytes, from);
  if (typeof end !== 'number') return end;
  if (end > headLimits.bytes) return headTooLarge;
  head.bytes = end;
  return understand(head, isOld);
}

export function problemOfPartialResponse(text: string): HeadProblem | undefined {
  if (!'HTTP/1.'.startsWith(text.slice(0, 7))) return broken('the answer does not begin with a status');
  return text.length > headLimits.bytes ? headTooLarge : undefined;
}

/** Three digits; 0 for all else. */
function statusAt(text: string, at: number): number {
  let status = 0;
  for (let i = at; i < at + 3; i += 1) {
    const digit = text.charCodeAt(i) - 0x30;
    if (!(digit >= 0 && digit <= 9)) return 0;
    status = status * 10 + digit;
  }
  return status;
}

function understand(head: Http1ResponseHead, isOld: boolean): Http1ResponseHead | HeadProblem {
  const { fields, status } = head;
  let length: number | undefined;
  let coding: string | undefined;
  let connection: ConnectionList | undefined;
  for (let i = 0; i < fields.count; i += 1) {
    const kind = fields.kind(i);
    if (kind === 'connection') {
      connection ??= new ConnectionList();
      connection.add(fields.value(i));
    } else if (kind === 'upgrade') head.upgrade = fields.value(i);
    else if (kind === 'length') {
      if (length !== undefined) return broken('the answer has more than one Content-Length');
      length = lengthIn(fields.value(i));
      if (length === undefined) return broken('Content-Length is not one number');
    } else if (kind === 'coding') {
      if (coding !== undefined) return broken('the answer has more than one Transfer-Encoding');
      coding = fields.value(i).toLowerCase();
    }
  }
  head.named = connection?.named;
  head.keepsAlive = connection?.isClose !== true && (!isOld || connection?.isKeepAlive === true);
  if (coding !== undefined) {
    if (length !== undefined || isOld) return broken('the length of the answer is ambiguous');
    if (coding !== 'chunked') return broken('the only transfer coding understood here is chunked');
  }
  if (status < 200 || status === 204 || status === 304) head.framing = 'none';
  else if (coding !== undefined) head.framing = 'chunked';
  else if (length !== undefined) {
    head.length = length;
    head.framing = length === 0 ? 'none' : 'length';
  }
  return head;
}
