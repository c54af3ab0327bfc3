/** What the command line says of each kind of datastore that the platform makes itself. */
import { type KindName, kinds } from '@flynn/controller/datastores/kinds';

export type DatastoreKind = Readonly<{
  /** Of `flynn`. */
  command: string;
  /** As its provider is called. */
  appliance: string;
  title: string;
  console: string;
  /** What a copy is called that may take over. */
  ready: string;
  /** What the files are called that it is dumped into. */
  dumpEnding: string;
  /** It can be gone back to a moment. */
  hasHistory: boolean;
}>;

function kindOf(name: KindName, own: Pick<DatastoreKind, 'ready' | 'dumpEnding' | 'hasHistory'>): DatastoreKind {
  return { ...kinds[name], appliance: name, ...own };
}

export const postgresKind = kindOf('postgres', { ready: 'replica,sync', dumpEnding: 'dump', hasHistory: true });
export const redisKind = kindOf('redis', { ready: 'replica,ready', dumpEnding: 'rdb', hasHistory: false });
export const mysqlKind = kindOf('mysql', { ready: 'replica,sync', dumpEnding: 'sql.gz', hasHistory: false });
