/**
 * How this host and its jobs prove who they are, and whom they believe: its own certificate, made again in time, and those it
 * gives its jobs. The authority's key is on each host's disk, so none of it needs another host, the store, or a person; that
 * it is another one by now shows on the disk, too.
 */
import { join } from 'node:path';
import { pause, systemClock } from '@flynn/kit/clock';
import { certificatesIn, fingerprintOf } from '@flynn/kit/certificate';
import { messageOf } from '@flynn/kit/errors';
import { readTextFile } from '@flynn/kit/files';
import { type LiveIdentity, RenewedIdentity } from '@flynn/kit/identity';
import type { Logger } from '@flynn/kit/log';
import { Mutex } from '@flynn/kit/queue';
import type { TaskGroup } from '@flynn/kit/tasks';
import { tlsFiles } from '../cluster/etcd-resident.ts';
import { type Config, gatewayOf } from '../config.ts';
import type { ContainerTable } from '../containers/table.ts';
import { jobIdOf } from '../jobs/plan.ts';
import { type Authorities, AuthorityFile } from './authorities.ts';
import {
  type CertificateFiles,
  type WantedCertificate,
  ensureCertificate,
  hostCertificateOf,
  writeIfOther,
} from './certificate-files.ts';
import { JobIdentities } from './job-identities.ts';

/** Somebody else may make it again as well, or tell of another authority: `up`, when the host has another address. */
const lookMs = 60_000;

export class HostTrust {
  /** As which the agent speaks and is spoken to. It trusts hosts and parts of the platform. */
  readonly identity: RenewedIdentity;
  readonly jobs: JobIdentities;
  /** As the hosts' records say. */
  isEverybodyKnown = false;
  readonly #file: AuthorityFile;
  readonly #stateDir: string;
  readonly #wanted: WantedCertificate;
  readonly #now: () => number;
  readonly #log: Logger;
  #authorities: Authorities;
  /** What all jobs have been told; an agent that starts does not know how far the one before it came. */
  #told: Authorities | undefined;
  /** Two at a time could leave the certificate of one with the key of the other. */
  readonly #renewing = new Mutex();

  private constructor(options: HostTrustOptions, own: { file: AuthorityFile; authorities: Authorities }) {
    const { stateDir, wanted, log, now = () => systemClock.now() } = options;
    this.#stateDir = stateDir;
    this.#wanted = wanted;
    this.#file = own.file;
    this.#authorities = own.authorities;
    this.#now = now;
    this.#log = log;
    // Until it is opened: it speaks to nobody before.
    const none = { trusted: '', certificate: '', privateKey: '' };
    this.identity = new RenewedIdentity(none, () => this.isEverybodyKnown);
    const authority = () => ({ ...this.#authorities.parts, trusted: this.#authorities.trusted });
    this.jobs = new JobIdentities({ dir: join(stateDir, 'identities'), authority, now, log });
  }

  /** Nothing where the host has no authority's key: then it speaks as agents did before there were roles. */
  static async open(options: HostTrustOptions): Promise<HostTrust | undefined> {
    const file = new AuthorityFile(options.stateDir);
    const authorities = await file.read();
    if (authorities === undefined) return undefined;
    const trust = new HostTrust(options, { file, authorities });
    await trust.#ensure({});
    return trust;
  }

  /** Whose certificates count as a host's or, in etcd, the controller's; the one that issues first. */
  get hostAuthorities(): string {
    return this.#authorities.ofHosts;
  }

  /** What those who join see behind a host's certificate; the one that issues, which they compare with their token, last. */
  get shown(): string {
    return this.#authorities.shown;
  }

  /** Of this host; with `isForced` before it is due. Whom it trusts becomes what its disk says. */
  renew(options: { isForced?: boolean } = {}): Promise<void> {
    return this.#renewing.run(() => this.#renew(options));
  }

  async #renew(options: { isForced?: boolean }): Promise<void> {
    // One that has gone was taken away with the host's state: it ends as it is.
    const authorities = (await this.#file.read()) ?? this.#authorities;
    this.#authorities = authorities;
    const { certificate } = this.identity.current;
    await this.#ensure(options);
    if (this.#told !== authorities) {
      await this.jobs.tellTrusted();
      this.#told = authorities;
      this.#log.info(
        { authorities: certificatesIn(authorities.ofHosts).map(fingerprintOf) },
        'this host trusts what the cluster’s authorities are now',
      );
    }
    const own = this.identity.current.certificate;
    if (own !== certificate) this.#log.info({ fingerprint: fingerprintOf(own) }, "the host's certificate is renewed");
  }

  async #ensure(options: { isForced?: boolean }): Promise<void> {
    const { issuing, ofHosts, trusted } = this.#authorities;
    const at = (name: string): string => join(this.#stateDir, name);
    // Before a certificate of another one: its member that starts in between knows whose it is.
    await writeIfOther(at(tlsFiles.authority), ofHosts);
    const files: CertificateFiles = { certificate: at(tlsFiles.certificate), key: at(tlsFiles.key) };
    const own = await ensureCertificate(files, {
      wanted: this.#wanted,
      authority: issuing,
      now: this.#now(),
      ...options,
    });
    this.identity.current = { trusted, ...own };
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
  const authorities = await new AuthorityFile(stateDir).read();
  const [certificate, privateKey] = await Promise.all(
    [tlsFiles.certificate, tlsFiles.key].map((file) => readTextFile(join(stateDir, file))),
  );
  if (authorities === undefined || certificate === undefined || privateKey === undefined) return undefined;
  return new RenewedIdentity({ trusted: authorities.trusted, certificate, privateKey });
}

type HostTrustOptions = {
  stateDir: string;
  wanted: WantedCertificate;
  now?: () => number;
  log: Logger;
};
