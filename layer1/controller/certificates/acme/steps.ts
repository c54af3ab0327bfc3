/** One look at a certificate of an authority's: is it due, and if so, what came of asking for it? */
import { FlynnError, asFlynnError, messageOf } from '@flynn/kit/errors';
import type { Again } from '@flynn/resource/reconciler';
import type { Compare } from '@flynn/store/store';
import { valuesOf } from '../../cell-view.ts';
import type { Deps } from '../../deps.ts';
import { checkCertificate } from '../check.ts';
import type { Challenge } from '../model.ts';
import { certificateType } from '../resources.ts';
import type { CertificateResource } from '../resources.ts';
import { untilShown } from './arrival.ts';
import { openAuthority } from './authority.ts';
import type { Authority, Proof } from './authority.ts';
import { callHook } from './hook.ts';
import { acmeId, acmeType } from './resources.ts';
import type { AcmeResource, AcmeSpec } from './resources.ts';
import { dueMs, nextTryMs } from './schedule.ts';

/** Timers do not count further, and clocks are set. */
const longestPauseMs = 6 * 3_600_000;

type StepDeps = Pick<Deps, 'resources' | 'now' | 'log'> & {
  cell: Pick<Deps['cell'], 'hosts'>;
  settings: Pick<Deps['settings'], 'httpPort' | 'httpsPort'>;
};
type Options = { signal: AbortSignal; epoch?: Compare; open?: typeof openAuthority; random?: () => number };

export async function stepCertificate(deps: StepDeps, id: string, options: Options): Promise<void | Again> {
  const { resources, now } = deps;
  const { signal } = options;
  const certificate = await resources.find(certificateType, id, { signal });
  if (certificate?.spec.source !== 'acme') return undefined;
  const acme = await resources.find(acmeType, acmeId, { signal });
  // Whoever sets an authority has everything looked at.
  if (acme === undefined) return undefined;
  const pauseMs = dueMs(certificate) - now();
  if (pauseMs > 0) return { againInMs: Math.min(pauseMs, longestPauseMs) };
  try {
    const authority = (options.open ?? openAuthority)(acme.spec, acme.status.accountUrl);
    const accountUrl = await authority.register(signal);
    if (accountUrl !== acme.status.accountUrl && !(await keepAccount(deps, acme, accountUrl, options))) {
      return { againInMs: 0 };
    }
    await issue(deps, certificate, acme.spec, authority, options);
  } catch (error) {
    signal.throwIfAborted();
    await fail(deps, certificate, error, options);
  }
  return { againInMs: 0 };
}

/** False: another authority was set meanwhile, at which there is no such account. */
async function keepAccount(
  { resources }: StepDeps,
  { spec }: AcmeResource,
  accountUrl: string,
  options: Options,
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

async function issue(
  deps: StepDeps,
  { id, spec }: CertificateResource,
  acme: AcmeSpec,
  authority: Authority,
  options: Options,
): Promise<void> {
  const { resources, now, log } = deps;
  const { signal } = options;
  const { domains } = spec;
  const withdrawals: (() => Promise<void>)[] = [];
  const present = async (proofs: readonly Proof[]): Promise<void> => {
    if (acme.challenge === 'dns-01') {
      withdrawals.push(...(await presentRecords(acme, proofs, signal)));
      return;
    }
    const challenges = proofs.map(challengeOf);
    await resources.updateStatus(certificateType, id, ({ status }) => ({ ...status, challenges }), guarded(options));
    const { httpPort, httpsPort } = deps.settings;
    const routers = valuesOf(deps.cell.hosts).map(({ address }) => ({ address, httpPort, httpsPort }));
    await untilShown(challenges, routers, { signal, log });
  };
  try {
    const made = await authority.order({ domains, challenge: acme.challenge, present, signal });
    const issued = checkCertificate({ ...made, domains, nowMs: now() });
    await resources.updateStatus(
      certificateType,
      id,
      () => ({ issued: { ...issued, notes: [] }, issuedFor: [...domains], challenges: [] }),
      guarded(options),
    );
    log.info({ domains, notAfter: issued.notAfter, issuer: issued.issuer }, 'a certificate was issued');
  } finally {
    for (const withdraw of withdrawals) {
      await withdraw().catch((error: unknown) => log.warn({ err: error, domains }, 'a DNS record was left behind'));
    }
  }
}

function challengeOf({ domain, token, value, alpn }: Proof): Challenge {
  return alpn === undefined
    ? { type: 'http-01', token, answer: value }
    : { type: 'tls-alpn-01', domain, certificate: alpn.certificate, privateKey: alpn.privateKey };
}

/** What has been presented before one fails is cleaned up too. */
async function presentRecords(
  { hook }: AcmeSpec,
  proofs: readonly Proof[],
  signal: AbortSignal,
): Promise<(() => Promise<void>)[]> {
  if (hook === undefined) throw new FlynnError('invalid', 'dns-01 needs a hook: set the authority again with one');
  const records = proofs.map(({ domain, value }) => ({ name: `_acme-challenge.${domain}`, value }));
  const cleanUps = records.map((record) => () => callHook(hook, 'cleanup', record, signal));
  const presented = await Promise.allSettled(records.map((record) => callHook(hook, 'present', record, signal)));
  const failed = presented.find((one) => one.status === 'rejected');
  if (failed === undefined) return cleanUps;
  await Promise.allSettled(cleanUps.map((cleanUp) => cleanUp()));
  throw failed.reason;
}

async function fail(
  { resources, now, log }: StepDeps,
  { id, spec }: CertificateResource,
  error: unknown,
  options: Options,
): Promise<void> {
  const nowMs = now();
  const retryAfter = asFlynnError(error).detail['retryAfterMs'];
  const written = await resources.updateStatus(
    certificateType,
    id,
    ({ status }) => {
      const count = (status.failure?.count ?? 0) + 1;
      const retryAfterMs = typeof retryAfter === 'number' ? retryAfter : undefined;
      const next = nextTryMs({ count: count - 1, nowMs, retryAfterMs, random: options.random ?? Math.random });
      const at = new Date(nowMs).toISOString();
      const nextTryAt = new Date(next).toISOString();
      return { ...status, challenges: [], failure: { count, message: messageOf(error), at, nextTryAt } };
    },
    guarded(options),
  );
  const { failure } = written.status;
  log.warn({ err: error, domains: spec.domains, nextTryAt: failure?.nextTryAt }, 'no certificate could be had');
}

/** A worker that lost its seat writes nothing. */
function guarded({ signal, epoch }: Options) {
  return { signal, ...(epoch === undefined ? {} : { also: () => ({ compare: [epoch] }) }) };
}
