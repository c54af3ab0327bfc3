/** One look at a certificate of an authority's: is it due, and if so, what came of asking for it? */
import { FlynnError, asFlynnError, messageOf } from '@flynn/kit/errors';
import type { Again } from '@flynn/resource/reconciler';
import { valuesOf } from '../../mirrors/cell-view.ts';
import { checkCertificate } from '../check.ts';
import type { Challenge } from '../model.ts';
import { certificateType } from '../resources.ts';
import type { CertificateResource, DnsRecord } from '../resources.ts';
import { untilShown } from './arrival.ts';
import { isAccountForgotten, openAuthority } from './authority.ts';
import type { Authority, Proof } from './authority.ts';
import { checkNames } from './names.ts';
import { guarded, isStillFor, note, noteIssued } from './order.ts';
import type { StepDeps, StepOptions } from './order.ts';
import { presentRecords, recordOf, withdraw } from './records.ts';
import { acmeId, acmeType } from './resources.ts';
import type { AcmeResource, AcmeSpec } from './resources.ts';
import { dueMs, namesDue, nextTryMs } from './schedule.ts';

/** Timers do not count further, and clocks are set. */
const longestPauseMs = 6 * 3_600_000;

export async function stepCertificate(deps: StepDeps, id: string, options: StepOptions): Promise<void | Again> {
  const { resources, now } = deps;
  const { signal } = options;
  const certificate = await resources.find(certificateType, id, { signal });
  if (certificate?.spec.source !== 'acme') return undefined;
  const acme = await resources.find(acmeType, acmeId, { signal });
  // Whoever sets an authority has everything looked at.
  if (acme === undefined) return undefined;
  const nowMs = now();
  const pauseMs = dueMs(certificate, nowMs) - nowMs;
  if (pauseMs > 0) return { againInMs: Math.min(pauseMs, longestPauseMs) };
  const domains = namesDue(certificate, nowMs);
  try {
    checkNames(domains, acme.spec.challenge);
    const authority = (options.open ?? openAuthority)(acme.spec, acme.status.accountUrl);
    const accountUrl = await authority.register(signal);
    if (accountUrl !== acme.status.accountUrl && !(await keepAccount(deps, acme, accountUrl, options))) {
      return { againInMs: 0 };
    }
    await issue(deps, { ordered: certificate, domains, acme: acme.spec, authority }, options);
  } catch (error) {
    signal.throwIfAborted();
    if (acme.status.accountUrl !== undefined && isAccountForgotten(error)) {
      // Looked at again it gets another, of the same key. What that one comes to is a failure as any.
      await forgetAccount(deps, acme, options);
      return { againInMs: 0 };
    }
    await fail(deps, { ordered: certificate, domains }, error, options);
  }
  return { againInMs: 0 };
}

/** False: another authority was set meanwhile, at which there is no such account. */
async function keepAccount(
  { resources }: StepDeps,
  { spec }: AcmeResource,
  accountUrl: string,
  options: StepOptions,
): Promise<boolean> {
  const isSame = (now: AcmeSpec) => now.privateKey === spec.privateKey && now.directoryUrl === spec.directoryUrl;
  const written = await resources.updateStatus(
    acmeType,
    acmeId,
    (now) => (isSame(now.spec) ? { accountUrl } : now.status),
    guarded(options),
  );
  return isSame(written.spec);
}

async function forgetAccount(
  { resources, log }: StepDeps,
  { status }: AcmeResource,
  options: StepOptions,
): Promise<void> {
  const { accountUrl } = status;
  log.warn({ accountUrl }, 'the authority has forgotten the account: it gets another');
  const without = (now: AcmeResource) => (now.status.accountUrl === accountUrl ? {} : now.status);
  await resources.updateStatus(acmeType, acmeId, without, guarded(options));
}

/** For these of its names. */
type Order = { ordered: CertificateResource; domains: readonly string[] };

async function issue(
  deps: StepDeps,
  { ordered, domains, acme, authority }: Order & { acme: AcmeSpec; authority: Authority },
  options: StepOptions,
): Promise<void> {
  const { now, log } = deps;
  const { signal } = options;
  const { id } = ordered;
  // Of a worker that was killed, or whose hook was away.
  await withdraw(deps, { id, acme, records: ordered.status.records }, options);
  const records: DnsRecord[] = [];
  const present = async (proofs: readonly Proof[]): Promise<void> => {
    const challenges = acme.challenge === 'dns-01' ? [] : proofs.map(challengeOf);
    const noted = await note(deps, ordered, (status) => ({ ...status, challenges }), options);
    if (!isStillFor(noted, ordered)) throw new FlynnError('cancelled', 'another certificate is wanted there by now');
    if (acme.challenge === 'dns-01') {
      records.push(...proofs.map(recordOf));
      await presentRecords(deps, { id, acme, records }, options);
      return;
    }
    const { httpPort, httpsPort } = deps.settings;
    const routers = valuesOf(deps.cell.hosts).map(({ address }) => ({ address, httpPort, httpsPort }));
    await untilShown(challenges, routers, { signal, log });
  };
  try {
    const made = await authority.order({ domains, challenge: acme.challenge, present, signal });
    const issued = checkCertificate({ ...made, domains, nowMs: now() });
    const noted = await noteIssued(deps, ordered, { issued: { ...issued, notes: [] }, domains }, options);
    const isNoted = noted.status.issued?.certificate === issued.certificate;
    const what = isNoted ? 'a certificate was issued' : 'a certificate came too late: another is wanted';
    log.info({ domains, notAfter: issued.notAfter, issuer: issued.issuer }, what);
  } finally {
    await withdraw(deps, { id, acme, records }, options);
  }
}

function challengeOf({ domain, token, value, alpn }: Proof): Challenge {
  return alpn === undefined
    ? { type: 'http-01', token, answer: value }
    : { type: 'tls-alpn-01', domain, certificate: alpn.certificate, privateKey: alpn.privateKey };
}

async function fail(deps: StepDeps, { ordered, domains }: Order, error: unknown, options: StepOptions): Promise<void> {
  const { now, log } = deps;
  const nowMs = now();
  const retryAfter = asFlynnError(error).detail['retryAfterMs'];
  const noted = await note(
    deps,
    ordered,
    (status) => {
      const count = (status.failure?.count ?? 0) + 1;
      const retryAfterMs = typeof retryAfter === 'number' ? retryAfter : undefined;
      const next = nextTryMs({ count: count - 1, nowMs, retryAfterMs, random: options.random ?? Math.random });
      const at = new Date(nowMs).toISOString();
      const nextTryAt = new Date(next).toISOString();
      return { ...status, challenges: [], failure: { count, message: messageOf(error), at, nextTryAt } };
    },
    options,
  );
  if (isStillFor(noted, ordered)) {
    const { nextTryAt } = noted.status.failure ?? {};
    log.warn({ err: error, domains, nextTryAt }, 'no certificate could be had');
  } else log.info({ err: error, domains }, 'an order was given up: another certificate is wanted there by now');
}
