/**
 * How this host and its jobs prove who they are: its own certificate, made again in time, and those it gives its jobs. The
 * authority's key is on each host's disk, so none of it needs another host, the store, or a person.
 */
import { join } from 'node:path';
import { pause, systemClock } from '@flynn/kit/clock';
import { fingerprintOf } from '@flynn/kit/certificate';
import { messageOf } from '@flynn/kit/errors';
import { readJsonFile, readTextFile } from '@flynn/kit/files';
import { type Identity, type LiveIdentity, RenewedIdentity } from '@flynn/kit/identity';
import type { Logger } from '@flynn/kit/log';
import { Mutex } from '@flynn/kit/queue';
import { type Credentials, deriveAuthority } from '@flynn/kit/tls';
import { z } from 'zod';
import type { TaskGroup } from '@flynn/kit/tasks';
import { tlsFiles } from '../cluster/etcd-resident.ts';
import { type Config, gatewayOf } from '../config.ts';
import type { ContainerTable } from '../container-table.ts';
import { jobIdOf } from '../plan.ts';
import {
  type CertificateFiles,
  type WantedCertificate,
  ensureCertificate,
  hostCertificateOf,
} from './certificate-files.ts';
import { JobIdentities } from './job-identities.ts';

/** Written by bootstrap: what hosts that join are told. Without it this host lets nobody in. */
export const admissionFile = 'admission.json';

/** Of the settings that hosts which join are told, the agent knows this much. */
const authoritySchema = z.object({
  settings: z.object({ authority: z.object({ certificate: z.string(), privateKey: z.string() }) }),
});

const partsAuthority = 'flynn parts';

/** Somebody else may make it again as well: `up`, when the host has another address. */
const lookMs = 60_000;

export class HostTrust {
  /** As which the agent speaks and is spoken to. It trusts hosts and parts of the platform. */
  readonly identity: RenewedIdentity;
  readonly jobs: JobIdentities;
  readonly #files: CertificateFiles;
  readonly #wanted: WantedCertificate;
  readonly #authority: Credentials;
  readonly #trusted: string;
  readonly #now: () => number;
  readonly #log: Logger;
  /** Two at a time could leave the certificate of one with the key of the other. */
  readonly #renewing = new Mutex();

  private constructor(
    options: HostTrustOptions,
    own: { identity: Identity; authority: Credentials; parts: Credentials; files: CertificateFiles },
  ) {
    const { stateDir, wanted, log } = options;
    this.identity = new RenewedIdentity(own.identity);
    this.#files = own.files;
    this.#wanted = wanted;
    this.#authority = own.authority;
    this.#trusted = own.identity.trusted;
    this.#now = options.now ?? (() => systemClock.now());
    this.#log = log;
    const authority = { ...own.parts, trusted: this.#trusted };
    this.jobs = new JobIdentities({ dir: join(stateDir, 'identities'), authority, now: this.#now, log });
  }

  /** Nothing where the host has no authority's key: then it speaks as agents did before there were roles. */
  static async open(options: HostTrustOptions): Promise<HostTrust | undefined> {
    const { stateDir, wanted, now = () => systemClock.now() } = options;
    const admission = await readJsonFile(join(stateDir, admissionFile), authoritySchema);
    if (admission === undefined) return undefined;
    const { authority } = admission.settings;
    const parts = await deriveAuthority(authority, partsAuthority);
    const files = { certificate: join(stateDir, tlsFiles.certificate), key: join(stateDir, tlsFiles.key) };
    const own = await ensureCertificate(files, { wanted, authority, now: now() });
    const identity = { trusted: authority.certificate + parts.certificate, ...own };
    return new HostTrust(options, { identity, authority, parts, files });
  }

  /** Of this host; with `isForced` before it is due. */
  renew(options: { isForced?: boolean } = {}): Promise<void> {
    return this.#renewing.run(() => this.#renew(options));
  }

  async #renew(options: { isForced?: boolean }): Promise<void> {
    const { wanted, authority, now } = { wanted: this.#wanted, authority: this.#authority, now: this.#now() };
    const own = await ensureCertificate(this.#files, { wanted, authority, now, ...options });
    if (own.certificate === this.identity.current.certificate) return;
    this.identity.current = { trusted: this.#trusted, ...own };
    this.#log.info({ fingerprint: fingerprintOf(own.certificate) }, "the host's certificate is renewed");
  }

  /** Until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await pause(lookMs, signal);
      if (signal.aborted) return;
      try {
        await this.renew();
      } catch (error) {
        this.#log.error(`the host's certificate could not be renewed: ${messageOf(error)}`);
      }
    }
  }
}

/** Of an agent: nothing where etcd has no certificates either, for tests. */
export async function openTrust(config: Config, log: Logger): Promise<HostTrust | undefined> {
  if (config.FLYNN_ETCD_CERT_FILE === undefined) return undefined;
  const { FLYNN_HOST_ID: hostId, FLYNN_ADDRESS: address, FLYNN_SUBNET: subnet, FLYNN_STATE_DIR: stateDir } = config;
  const wanted = hostCertificateOf({ hostId, address, gateway: gatewayOf(subnet) });
  return HostTrust.open({ stateDir, wanted, log });
}

/** Keeps certificates good, in the group. */
export function runTrust(trust: HostTrust, containers: ContainerTable, tasks: TaskGroup): void {
  const jobIds = () => new Set(containers.all().map(jobIdOf));
  tasks.run('host certificate', (signal) => trust.run(signal));
  // Not before the containers are known: then every job would seem to be gone.
  tasks.run('job certificates', (signal) =>
    trust.jobs.run(() => {
      const known = containers.isCurrent ? jobIds() : undefined;
      return known === undefined ? undefined : (jobId) => known.has(jobId);
    }, signal),
  );
}

/** As what its agent speaks, for programs that speak in its place. */
export async function readHostIdentity(stateDir: string): Promise<LiveIdentity | undefined> {
  const admission = await readJsonFile(join(stateDir, admissionFile), authoritySchema);
  const [certificate, privateKey] = await Promise.all(
    [tlsFiles.certificate, tlsFiles.key].map((file) => readTextFile(join(stateDir, file))),
  );
  if (admission === undefined || certificate === undefined || privateKey === undefined) return undefined;
  const { authority } = admission.settings;
  const parts = await deriveAuthority(authority, partsAuthority);
  return new RenewedIdentity({ trusted: authority.certificate + parts.certificate, certificate, privateKey });
}

type HostTrustOptions = {
  stateDir: string;
  wanted: WantedCertificate;
  now?: () => number;
  log: Logger;
};
