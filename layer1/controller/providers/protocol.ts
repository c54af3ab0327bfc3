/**
 * How a provider is asked: docs/resources.md. POST for something new, with a key that makes asking again the same wish;
 * DELETE for what is to go. Either may be answered with 202: it is at it, and is to be asked the same again.
 *
 * Errors, all told with the provider's name: `invalid`, what it refuses, in its own words; `denied`, when it refuses us;
 * `unavailable` for all else, and for what a router of flynn's answers in its place. `isUnsent` says that nothing of the request
 * got there. The signal's own reason when it aborts.
 */
import { systemClock } from '@flynn/kit/clock';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { neverSent } from '@flynn/kit/never-sent';
import { withDeadline } from '@flynn/kit/retry';
import { provisionedSchema } from './model.ts';
import type { Provisioned } from './model.ts';
import type { ProviderResource } from './types.ts';

const defaultDeadlineMs = 20_000;
/** An app of the cluster that was started a moment ago is known by name before each host's rules let others in. */
const settlesMs = 3_000;
const againMs = 250;
const accepted = 202;
const maxAnswerBytes = 64 * 1024;
const shownCharacters = 300;
/** Refused for now, and not for what was asked. */
const passing: ReadonlySet<number> = new Set([408, 425, 429]);
/**
 * Of these it is not known whether anything was made: as whoever is at an address that was never asked for anything says, and as
 * servers refuse a key whose first request they are not through with.
 */
const saysNothing: ReadonlySet<number> = new Set([404, 405, 409, 423]);
/** What a router of flynn's says in the place of an app; of these the app has heard nothing. */
const routerHeader = 'x-flynn-error';
const neverPassedOn: ReadonlySet<string> = new Set(['unknown-host', 'no-backends', 'starting', 'maintenance']);

export type Asked = Pick<ProviderResource['spec'], 'name' | 'url' | 'token'>;
type Options = Readonly<{ signal: AbortSignal; deadlineMs?: number }>;
type Init = Readonly<{ method: string; headers?: Record<string, string>; body?: string }>;
type Answer = Readonly<{ status: number; text: string; retryAfter: string | null }>;
/** It has begun, and says when to ask again, or not. */
export type Later = Readonly<{ laterMs: number | undefined }>;

/** With the same key it is the same thing, however often it is asked for. */
export async function provision(
  provider: Asked,
  { config, key }: Readonly<{ config: unknown; key: string }>,
  options: Options,
): Promise<Provisioned | Later> {
  const headers = { 'content-type': 'application/json', 'idempotency-key': key };
  const init = { method: 'POST', headers, body: JSON.stringify({ config }) };
  const { status, text, retryAfter } = await ask(provider, provider.url, init, options);
  if (status === accepted) return laterOf(retryAfter);
  if (status !== 200 && status !== 201) throw refusal(provider, status, text);
  const { data, error } = provisionedSchema.safeParse(jsonOf(text));
  if (data !== undefined) return data;
  // What it holds is secret: only where it is wrong is told.
  const where = error.issues.map(({ path, message }) => `${path.join('.') || 'the answer'}: ${message}`).join('; ');
  throw new FlynnError('unavailable', `${named(provider)} answered with something unexpected (${where})`);
}

/** Undefined once it is gone, also if it was before. */
export async function deprovision(provider: Asked, externalId: string, options: Options): Promise<Later | undefined> {
  const url = `${provider.url.replace(/\/$/, '')}/${encodeURIComponent(externalId)}`;
  const { status, text, retryAfter } = await ask(provider, url, { method: 'DELETE' }, options);
  if (status === accepted) return laterOf(retryAfter);
  if ((status >= 200 && status < 300) || status === 404 || status === 410) return undefined;
  throw refusal(provider, status, text);
}

export function isLater(answer: object | undefined): answer is Later {
  return answer !== undefined && 'laterMs' in answer;
}

/** A moment by its clock says nothing here: only a number of seconds counts. */
function laterOf(retryAfter: string | null): Later {
  const seconds = retryAfter?.trim() ?? '';
  return { laterMs: /^\d{1,6}$/.test(seconds) ? Number(seconds) * 1_000 : undefined };
}

export function isUnsent(error: unknown): boolean {
  return error instanceof FlynnError && error.detail['isUnsent'] === true;
}

/** It refuses what was asked, by itself and for good: no address that leads elsewhere by now, and nothing that is still at it. */
export function isRefused(error: unknown): boolean {
  return error instanceof FlynnError && error.code === 'invalid' && error.detail['saysNothing'] !== true;
}

async function ask(provider: Asked, url: string, init: Init, { signal, deadlineMs }: Options): Promise<Answer> {
  const untilMs = performance.now() + settlesMs;
  for (;;) {
    try {
      return await askOnce(provider, url, init, { signal, ...(deadlineMs === undefined ? {} : { deadlineMs }) });
    } catch (error) {
      if (!isUnsent(error) || performance.now() > untilMs) throw error;
    }
    await systemClock.sleep(againMs, { signal });
  }
}

async function askOnce(
  provider: Asked,
  url: string,
  init: Init,
  { signal, deadlineMs = defaultDeadlineMs }: Options,
): Promise<Answer> {
  const { token } = provider;
  const bearer: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const headers = { accept: 'application/json', ...init.headers, ...bearer };
  const limited = withDeadline(deadlineMs, signal);
  try {
    // Elsewhere the token is nobody's business.
    const response = await fetch(url, { ...init, headers, redirect: 'manual', signal: limited });
    const retryAfter = response.headers.get('retry-after');
    const answer = { status: response.status, text: await textOf(response), retryAfter };
    const code = response.headers.get(routerHeader);
    if (code !== null) throw byRouter(provider, answer.status, code);
    return answer;
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    if (error instanceof FlynnError) throw error;
    if (limited.aborted) {
      throw new FlynnError('unavailable', `${named(provider)} did not answer within ${deadlineMs / 1000} s`);
    }
    // fetch itself says no more than that it failed.
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
    const detail = neverSent(cause) ? { detail: { isUnsent: true } } : {};
    throw new FlynnError('unavailable', `${named(provider)} cannot be reached: ${messageOf(cause)}`, {
      cause: error,
      ...detail,
    });
  }
}

/** It says nothing of what is at the provider: a 404 is that of a route that is gone. */
function byRouter(provider: Asked, status: number, code: string): FlynnError {
  const detail = neverPassedOn.has(code) ? { detail: { isUnsent: true } } : {};
  return new FlynnError(
    'unavailable',
    `${named(provider)} cannot be reached: its router answered ${status} (${code})`,
    detail,
  );
}

async function textOf(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    // Leaving the loop ends the connection.
    if (size > maxAnswerBytes) throw new Error(`it answered more than ${maxAnswerBytes / 1024} KB`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

function refusal(provider: Asked, status: number, text: string): FlynnError {
  const said = saidIn(text);
  const answer = `${status}${said === '' ? '' : `: ${said}`}`;
  if (status === 401 || status === 403) {
    const remedy = 'an admin of the cluster gives it the right token, with flynn apply (docs/resources.md)';
    return new FlynnError('denied', `${named(provider)} refuses this cluster (${answer}): ${remedy}`);
  }
  if (status >= 300 && status < 400) {
    return new FlynnError('unavailable', `${named(provider)} is elsewhere (${status}): give it its new address`);
  }
  if (status < 400 || status >= 500 || passing.has(status)) {
    return new FlynnError('unavailable', `${named(provider)} answered ${answer}`);
  }
  const detail = saysNothing.has(status) ? { detail: { saysNothing: true } } : {};
  return new FlynnError('invalid', `${named(provider)} refuses this (${answer})`, detail);
}

/** Its own words: `message` or `error` of JSON, else a text as it is; on one line. */
function saidIn(text: string): string {
  const json = jsonOf(text);
  const fields: unknown[] = [Reflect.get(Object(json), 'message'), Reflect.get(Object(json), 'error')];
  const words = fields.find((field) => typeof field === 'string') ?? (json === undefined ? text : '');
  return words
    .replaceAll(/[\s\p{Cc}]+/gu, ' ')
    .trim()
    .slice(0, shownCharacters);
}

function named({ name }: Asked): string {
  return `the provider ${name}`;
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
