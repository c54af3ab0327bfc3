/** What people call each kind of datastore, and by which command they use it. Plain data: the dashboard's pages have it, too. */
export const kindNames = ['postgres', 'redis', 'mysql'] as const;
export type KindName = (typeof kindNames)[number];

/** Of `flynn`: what all that is done with it is under, and its console below that. */
export type Words = Readonly<{ title: string; command: string; console: string }>;

export const kinds: Readonly<Record<KindName, Words>> = {
  postgres: { title: 'PostgreSQL', command: 'pg', console: 'psql' },
  redis: { title: 'Redis', command: 'redis', console: 'cli' },
  mysql: { title: 'MySQL', command: 'mysql', console: 'console' },
};

/** Of a kind that a later platform has and this one does not know: what `flynn resource` tells. */
export function commandOf(kind: string): string {
  const name = kindNames.find((one) => one === kind);
  return name === undefined ? 'resource' : kinds[name].command;
}
