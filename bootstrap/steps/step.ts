/** What bringing a host up is made of. */
import type { Credentials } from '@flynn/kit/tls';
import { type Person } from '../cli/config.ts';
import { type Backup } from '../restore/from-backup.ts';
import { type Cluster, type Options } from '../settings.ts';
import { type Report } from './timed.ts';

export type Context = Readonly<{
  options: Options;
  cluster: Cluster;
  person: Person;
  env: Record<string, string | undefined>;
  /** What the cluster is to have from its beginning. */
  backup?: Backup;
  /** A former domain that is to be none any more. */
  dropDomain?: string | undefined;
  /** Who is to sign all certificates of the cluster, if that is to be another one. */
  nextAuthority?: Credentials | undefined;
  /** Only what is there already is brought up to date, one app after the other. */
  isUpdate?: boolean;
}>;

export type Step = Readonly<{
  title: string;
  run: (report: Report) => Promise<string | void>;
  /** Broken off, it might leave the host without an agent: it comes to its end first. */
  isWhole?: boolean;
}>;
