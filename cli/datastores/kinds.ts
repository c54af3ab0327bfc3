/** What the command line says of each kind of datastore that the platform makes itself. */

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

export const postgresKind: DatastoreKind = {
  command: 'pg',
  appliance: 'postgres',
  title: 'PostgreSQL',
  console: 'psql',
  ready: 'replica,sync',
  dumpEnding: 'dump',
  hasHistory: true,
};

export const redisKind: DatastoreKind = {
  command: 'redis',
  appliance: 'redis',
  title: 'Redis',
  console: 'cli',
  ready: 'replica,ready',
  dumpEnding: 'rdb',
  hasHistory: false,
};

const kinds = [postgresKind, redisKind];

/** Of a kind that a later platform has and this command does not know: what `flynn resource` tells. */
export function commandOf(appliance: string): string {
  return kinds.find((kind) => kind.appliance === appliance)?.command ?? 'resource';
}
