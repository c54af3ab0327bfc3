/** When is a certificate to be renewed, and when is the next try after a failure? Pure. */
import { createHash } from 'node:crypto';
import { backoffMs } from '@flynn/kit/retry';
import type { CertificateResource } from '../resources.ts';
import { servedNames } from '../view.ts';

const firstRetryMs = 5 * 60_000;
const lastRetryMs = 24 * 3_600_000;
/** Clocks of hosts are never quite the same. */
const skewMs = 60_000;
/** Of its life: many that were made together are not renewed together. */
const spread = 0.05;

/** After two thirds of its life, and up to a twentieth later: always the same moment for the same certificate. */
export function renewalMs(id: string, { notBefore, notAfter }: { notBefore: string; notAfter: string }): number {
  const [from, until] = [Date.parse(notBefore), Date.parse(notAfter)];
  const share = createHash('sha256').update(id).digest().readUInt32BE(0) / 2 ** 32;
  return from + (until - from) * (2 / 3 + spread * share);
}

/** When the certificate is to be asked for. Asked for again by people, or with other names, it is now. */
export function dueMs(
  { id, spec, status }: Pick<CertificateResource, 'id' | 'spec' | 'status'>,
  nowMs: number,
): number {
  const { issued, issuedFor, failure } = status;
  if (failure !== undefined) {
    // One that is yet to come was noted by a clock that was ahead: it would be waited for until that time.
    return Date.parse(failure.at) > nowMs + skewMs ? 0 : Date.parse(failure.nextTryAt);
  }
  return issued === undefined || !areSame(issuedFor, spec.domains) ? 0 : renewalMs(id, issued);
}

/**
 * Which names to ask for. All that are wanted; but where that came to nothing the last time, and what there is for some of them
 * is to be renewed, these first: one name that cannot be proven must not have the others' certificate end.
 */
export function namesDue(
  { id, spec, status }: Pick<CertificateResource, 'id' | 'spec' | 'status'>,
  nowMs: number,
): readonly string[] {
  const { issued, failure } = status;
  const served = servedNames({ spec, status });
  const isAlone = issued !== undefined && served.length > 0 && served.length < spec.domains.length;
  return isAlone && failure !== undefined && renewalMs(id, issued) <= nowMs ? served : spec.domains;
}

/** In whatever order. Each is there once. */
export function areSame(some: readonly string[], others: readonly string[]): boolean {
  return some.length === others.length && others.every((name) => some.includes(name));
}

/** Longer each time, but never before the authority wants to be asked again. `count`: failures in a row, this one included. */
export function nextTryMs(options: {
  count: number;
  nowMs: number;
  retryAfterMs: number | undefined;
  random: () => number;
}): number {
  const { count, nowMs, retryAfterMs = 0, random } = options;
  const pauseMs = backoffMs(count, { minMs: firstRetryMs, maxMs: lastRetryMs, random });
  return nowMs + Math.max(pauseMs, retryAfterMs);
}
