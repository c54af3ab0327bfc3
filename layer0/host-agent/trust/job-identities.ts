/**
 * Certificates of the platform's jobs on this host: short-lived, each in a folder of its own that its container has mounted,
 * and made again before they end. Of an authority beside the cluster's, which etcd does not know: a part's certificate
 * opens no store.
 */
import { mkdir, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pause, systemClock } from '@flynn/kit/clock';
import { hasErrno, messageOf } from '@flynn/kit/errors';
import { readTextFile, writeFileAtomic } from '@flynn/kit/files';
import { appRole, identityFiles, roleOf } from '@flynn/kit/identity';
import type { Logger } from '@flynn/kit/log';
import { parseCertificate } from '@flynn/kit/certificate';
import { type Credentials, issueCertificate } from '@flynn/kit/tls';
import { isStillGood, writeIfOther } from './certificate-files.ts';

/** Where a container finds its own. */
export const identityPath = '/run/flynn/identity';

/** An agent may be away for two of them before the certificates of its jobs end. */
const days = 7;
/** With another authority they are made again before anybody waits for long. */
const lookMs = 60_000;
/** By then a certificate is in its folder, or never. */
const writtenWithinMs = 3_600_000;

export type PartsAuthority = Credentials & {
  /** What parts trust: hosts and parts. */
  readonly trusted: string;
};

export class JobIdentities {
  readonly #dir: string;
  readonly #authority: () => PartsAuthority;
  readonly #now: () => number;
  readonly #log: Logger;

  /** `authority`: as it is by now. */
  constructor(options: { dir: string; authority: () => PartsAuthority; now?: () => number; log: Logger }) {
    this.#dir = options.dir;
    this.#authority = options.authority;
    this.#now = options.now ?? (() => systemClock.now());
    this.#log = options.log;
  }

  folderOf(jobId: string): string {
    return join(this.#dir, jobId);
  }

  /** There and good for a while when it resolves. Again: nothing happens, until it is due. */
  async issue(jobId: string, app: string, options: { isForced?: boolean } = {}): Promise<void> {
    const folder = this.folderOf(jobId);
    const role = appRole(app);
    const file = join(folder, identityFiles.own);
    const authority = this.#authority();
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await writeIfOther(join(folder, identityFiles.trusted), authority.trusted);
    const now = this.#now();
    const before = options.isForced === true ? undefined : await readTextFile(file);
    if (before !== undefined && isStillGood(before, { authority: authority.certificate, role, now })) return;
    const issued = await issueCertificate(authority, { name: app, role, days, now });
    await writeFileAtomic(file, issued.certificate + issued.privateKey);
  }

  /** Tells all jobs whom they are to trust by now; they look every half minute. */
  async tellTrusted(): Promise<void> {
    const { trusted } = this.#authority();
    for (const jobId of await this.#jobIds()) {
      try {
        await writeIfOther(join(this.folderOf(jobId), identityFiles.trusted), trusted);
      } catch (error) {
        // Its folder has just gone, with the job.
        if (!hasErrno(error, 'ENOENT')) throw error;
      }
    }
  }

  /** Tells all jobs whether everybody of the platform shows a certificate; it has to be told again before `closedForMs` is over. */
  async tell(isEverybodyKnown: boolean): Promise<void> {
    for (const jobId of await this.#jobIds()) {
      const file = join(this.folderOf(jobId), identityFiles.closed);
      try {
        if (isEverybodyKnown) await writeFile(file, '\n');
        else await rm(file, { force: true });
      } catch (error) {
        // Its folder has just gone, with the job.
        if (!hasErrno(error, 'ENOENT')) throw error;
      }
    }
  }

  /** Those that jobs have, as they were issued last. */
  async list(): Promise<{ jobId: string; certificate: string }[]> {
    const read = (await this.#jobIds()).map(async (jobId) => ({
      jobId,
      certificate: (await readTextFile(join(this.folderOf(jobId), identityFiles.own))) ?? '',
    }));
    return (await Promise.all(read)).filter(({ certificate }) => certificate !== '');
  }

  /** Whether what these jobs have is of the authority that issues. */
  async areOfAuthority(hasJob: (jobId: string) => boolean): Promise<boolean> {
    const { certificate: authority } = this.#authority();
    const now = this.#now();
    const known = (await this.list()).filter(({ jobId }) => hasJob(jobId));
    return known.every(({ certificate }) => isStillGood(certificate, { authority, now }));
  }

  /** All that are due, or with `isForced` all; of jobs that are gone they go. What fails is told and tried the next time. */
  async renew(options: { hasJob: (jobId: string) => boolean; isForced?: boolean }): Promise<void> {
    for (const jobId of await this.#jobIds()) {
      try {
        const own = await readTextFile(join(this.folderOf(jobId), identityFiles.own));
        const now = this.#now();
        if (own === undefined) {
          if (!options.hasJob(jobId)) await this.#removeUnfinished(jobId, now);
          continue;
        }
        if (!options.hasJob(jobId)) {
          // Not before its time is over, whoever issues by now: one whose container is only being made has it already.
          if (!isStillGood(own, { now })) await rm(this.folderOf(jobId), { recursive: true, force: true });
          continue;
        }
        if (isStillGood(own, { authority: this.#authority().certificate, now }) && options.isForced !== true) continue;
        const role = roleOf(parseCertificate(own).subjectAltName);
        if (role !== undefined) {
          await this.issue(jobId, role.slice(appRole('').length), options);
          this.#log.info({ jobId }, `the certificate of ${role} is renewed`);
        }
      } catch (error) {
        this.#log.error(`the certificate of the job ${jobId} could not be renewed: ${messageOf(error)}`);
      }
    }
  }

  /** Whoever began it has ended before it had a certificate, unless it is only being written. */
  async #removeUnfinished(jobId: string, now: number): Promise<void> {
    const folder = this.folderOf(jobId);
    const { mtimeMs } = await stat(folder);
    if (now - mtimeMs > writtenWithinMs) await rm(folder, { recursive: true, force: true });
  }

  async #jobIds(): Promise<string[]> {
    await mkdir(this.#dir, { recursive: true, mode: 0o700 });
    return readdir(this.#dir);
  }

  /** Until the signal aborts. */
  async run(hasJob: () => ((jobId: string) => boolean) | undefined, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const known = hasJob();
      if (known !== undefined) await this.renew({ hasJob: known });
      await pause(lookMs, signal);
    }
  }
}
