/** Hands a message to its receiver, and hears what that says. */
import { once } from 'node:events';
import { IncomingMessage, request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { basicAuthorization } from '@flynn/kit/basic-login';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { Outside } from '@flynn/kit/outside';
import type { Answer } from './queue.ts';
import type { Request } from './formats.ts';

const deadlineMs = 15_000;
/** Of an answer no more is read. */
const maxAnswerBytes = 1024;

/**
 * Resolves with what was answered, whatever it was, or with why nothing was; rejects only once the signal aborts. Redirects are
 * not followed. Certificates have to be of an authority that everybody trusts.
 */
export type Send = (
  receiver: Readonly<{ url: string; outside: Outside | undefined }>,
  request: Request,
  signal: AbortSignal,
) => Promise<Answer>;

export const sendOverHttp: Send = async ({ url, outside }, request, signal) => {
  const limited = AbortSignal.any([signal, AbortSignal.timeout(deadlineMs)]);
  try {
    return await post(new URL(url), outside, request, limited);
  } catch (error) {
    signal.throwIfAborted();
    const why = limited.aborted ? `no answer within ${deadlineMs / 1_000} s` : messageOf(error);
    return { text: `cannot reach ${new URL(url).host}: ${why}` };
  }
};

async function post(url: URL, outside: Outside | undefined, { headers, body }: Request, signal: AbortSignal) {
  // A name is judged by what it leads to when it is connected to; an address is looked up by nobody.
  outside?.check(bareHost(url));
  const authorization = basicAuthorization(url);
  const request = (url.protocol === 'https:' ? httpsRequest : httpRequest)(withoutLogin(url), {
    method: 'POST',
    // A connection that was judged once is not kept for later.
    agent: false,
    headers: {
      ...headers,
      'content-length': Buffer.byteLength(body),
      'user-agent': 'flynn',
      ...(authorization === undefined ? {} : { authorization }),
    },
    signal,
    ...(outside === undefined ? {} : { lookup: outside.lookup }),
  });
  request.end(body);
  const [response]: unknown[] = await once(request, 'response', { signal });
  if (!(response instanceof IncomingMessage)) throw new FlynnError('internal', 'an answer that is none');
  const text = await beginningOf(response);
  request.destroy();
  return answerOf(response, text);
}

function answerOf({ statusCode = 0, headers }: IncomingMessage, text: string): Answer {
  const isElsewhere = statusCode >= 300 && statusCode < 400;
  const seconds = Number(headers['retry-after']);
  return {
    status: statusCode,
    text: isElsewhere ? 'it leads elsewhere, which is not followed: give the address it leads to' : text,
    ...(Number.isFinite(seconds) && seconds > 0 ? { retryAfterMs: seconds * 1_000 } : {}),
  };
}

/** In one line, without what a terminal would take for commands. What breaks off later is as good as whole. */
async function beginningOf(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of response) {
      const piece = Buffer.from(chunk);
      chunks.push(piece.subarray(0, maxAnswerBytes - bytes));
      bytes += piece.length;
      if (bytes >= maxAnswerBytes) break;
    }
  } catch {
    // The status is what counts, and that was there.
  }
  return Buffer.concat(chunks)
    .toString()
    .replaceAll(/[\p{Cc}\s]+/gu, ' ')
    .trim();
}

function withoutLogin(url: URL): URL {
  const bare = new URL(url);
  bare.username = '';
  bare.password = '';
  return bare;
}

/** As an address, without the brackets of IPv6. */
export function bareHost({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1');
}
