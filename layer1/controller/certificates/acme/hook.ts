/** DNS records for dns-01, made by a program of the operator's behind a URL: see docs/certificates.md. */
import { createHmac } from 'node:crypto';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import type { DnsRecord } from '../resources.ts';
import type { AcmeSpec } from './resources.ts';

/** Until the record is to be seen everywhere. */
const presentMs = 5 * 60_000;
const cleanUpMs = 30_000;
const shownCharacters = 300;

type Hook = NonNullable<AcmeSpec['hook']>;

/** Resolves once the hook has answered that the record is there. Idempotent, as hooks have to be. */
export async function presentRecord(hook: Hook, record: DnsRecord, signal: AbortSignal): Promise<void> {
  await callHook(hook, 'present', record, withDeadline(presentMs, signal));
}

/** Resolves once the hook has answered that the record is gone. Idempotent too. */
export async function cleanUpRecord(hook: Hook, record: DnsRecord, signal: AbortSignal): Promise<void> {
  await callHook(hook, 'cleanup', record, withDeadline(cleanUpMs, signal));
}

async function callHook(
  hook: Hook,
  action: 'present' | 'cleanup',
  record: DnsRecord,
  signal: AbortSignal,
): Promise<void> {
  const body = JSON.stringify({ action, ...record, type: 'TXT' });
  const signature =
    hook.secret === undefined
      ? {}
      : { 'x-flynn-signature': `sha256=${createHmac('sha256', hook.secret).update(body).digest('hex')}` };
  const headers = { 'content-type': 'application/json', ...signature };
  let response: Response;
  try {
    response = await fetch(hook.url, {
      method: 'POST',
      headers,
      body,
      redirect: 'error',
      signal,
    });
  } catch (error) {
    throw new FlynnError('unavailable', `the DNS hook could not ${action} ${record.name}: ${reasonOf(error)}`, {
      cause: error,
    });
  }
  const said = (await response.text()).slice(0, shownCharacters).trim();
  if (response.ok) return;
  throw new FlynnError(
    'unavailable',
    `the DNS hook answered ${response.status} to ${action} ${record.name}${said === '' ? '' : `: ${said}`}`,
  );
}

/** fetch itself says no more than that it failed. */
function reasonOf(error: unknown): string {
  return error instanceof Error && error.cause !== undefined ? messageOf(error.cause) : messageOf(error);
}
