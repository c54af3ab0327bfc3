/** DNS records of orders: there as long as an authority may look, and noted as long as they may be. */
import { FlynnError } from '@flynn/kit/errors';
import { certificateType } from '../resources.ts';
import type { DnsRecord } from '../resources.ts';
import type { Proof } from './authority.ts';
import { cleanUpRecord, presentRecord } from './hook.ts';
import { guarded } from './order.ts';
import type { StepDeps, StepOptions } from './order.ts';
import type { AcmeSpec } from './resources.ts';

/** Of hooks that never clean up: older ones are forgotten. */
const mostRecords = 200;

export function recordOf({ domain, value }: Proof): DnsRecord {
  return { name: `_acme-challenge.${domain}`, value };
}

/** They are noted before there are any: whatever ends this, somebody knows what to clean up. */
export async function presentRecords(
  { resources }: StepDeps,
  { id, acme: { hook }, records }: { id: string; acme: AcmeSpec; records: readonly DnsRecord[] },
  options: StepOptions,
): Promise<void> {
  if (hook === undefined) throw new FlynnError('invalid', 'dns-01 needs a hook: set the authority again with one');
  await resources.updateStatus(
    certificateType,
    id,
    ({ status }) => ({ ...status, records: [...status.records, ...records].slice(-mostRecords) }),
    guarded(options),
  );
  const presented = await Promise.allSettled(records.map((one) => presentRecord(hook, one, options.signal)));
  const failed = presented.find((one) => one.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
}

/**
 * Cleans up `records`. What could not be cleaned up, as by who was told to stop or lost the seat, stays noted: whoever comes next
 * does so first. Never rejects.
 */
export async function withdraw(
  { resources, log }: StepDeps,
  { id, acme: { hook }, records }: { id: string; acme: AcmeSpec; records: readonly DnsRecord[] },
  options: StepOptions,
): Promise<void> {
  const { signal } = options;
  if (hook === undefined || records.length === 0 || signal.aborted) return;
  const gone = new Set<string>();
  const cleanUp = async (record: DnsRecord): Promise<void> => {
    try {
      await cleanUpRecord(hook, record, signal);
      gone.add(record.value);
    } catch (error) {
      log.warn({ err: error, record: record.name }, 'a DNS record was left behind: it is cleaned up with the next try');
    }
  };
  await Promise.all(records.map(cleanUp));
  try {
    await resources.updateStatus(
      certificateType,
      id,
      ({ status }) => ({ ...status, records: status.records.filter(({ value }) => !gone.has(value)) }),
      guarded(options),
    );
  } catch (error) {
    log.warn({ err: error }, 'DNS records that are gone could not be noted as that');
  }
}
