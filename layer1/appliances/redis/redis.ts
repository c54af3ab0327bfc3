/**
 * Redis, by Valkey: `flynn-redis` starts a member and watches over it, `flynn-redis-client` is for what is done with what is in it,
 * `flynn-redis-members` for who of them leads. `programs/decision.py` says by which rules.
 */
import { createHash } from 'node:crypto';
import { type Appliance, type Login, keyspacePassword } from '../appliance.ts';
import { kinds } from '../kinds.ts';
import { loginAfter, supervised } from '../members/supervised.ts';

const programs = '/usr/lib/flynn/redis';
const client = `${programs}/flynn-redis-client`;
const members = `${programs}/flynn-redis-members`;
const port = 6_379;
const superuser = 'flynn';

/** What is done where memory is full. */
const evictions = [
  'noeviction',
  'allkeys-lru',
  'allkeys-lfu',
  'allkeys-random',
  'volatile-lru',
  'volatile-lfu',
  'volatile-random',
  'volatile-ttl',
] as const;

export const redis: Appliance = {
  name: 'redis',
  cli: kinds.redis,
  dataPath: '/data',
  user: '6379',
  ...supervised,
  port,
  defaultMemoryBytes: 256 * 1024 ** 2,
  leastMemoryBytes: 96 * 1024 ** 2,
  secrets: [
    'REDIS_PASSWORD',
    'REDIS_SUPERUSER_PASSWORD',
    'REDIS_REPLICATION_PASSWORD',
    'REDIS_MEMBERS_PASSWORD',
    keyspacePassword,
  ],
  reservedVariables: ['REDIS_', 'REDISCLI_', 'VALKEY'],
  options: { eviction: { variable: 'MAXMEMORY_POLICY', values: evictions } },
  logins: {
    first: ({ REDIS_PASSWORD: password = '' }) => ({ name: 'app', password }),
    of: ({ REDIS_USER: name = '', REDIS_PASSWORD: password = '' }) => ({ name, password }),
    after: loginAfter,
    admit: (logins) => ({ command: [client, 'admit'], input: digestsOf(logins) }),
    letIn: (logins) => ({ command: [client, 'let-in'], input: digestsOf(logins) }),
  },
  variables: ({ login: { name, password }, host }) => ({
    REDIS_URL: `redis://${name}:${password}@${host('primary')}:${port}`,
    REDIS_HOST: host('primary'),
    REDIS_PORT: String(port),
    REDIS_USER: name,
    REDIS_PASSWORD: password,
  }),
  console: ({ login, host, secrets }) => {
    const { name, password } =
      secrets === undefined ? login : { name: superuser, password: secrets['REDIS_SUPERUSER_PASSWORD'] ?? '' };
    const at = ['-h', host('primary'), '-p', String(port), '--user', name];
    // With -e its exit code tells of a command that failed.
    return { command: ['valkey-cli', ...at, '-e'], env: { REDISCLI_AUTH: password } };
  },
  commands: {
    dump: [client, 'dump'],
    restore: [client, 'restore'],
    import: [client, 'import'],
    status: [members, 'status'],
    switchover: [members, 'switchover'],
  },
};

/** What Valkey keeps of passwords, which are random and long: who sees it cannot log in with it. */
function digestsOf(logins: readonly Login[]): string {
  return logins
    .map(({ name, password }) => `${name} ${createHash('sha256').update(password).digest('hex')}\n`)
    .join('');
}
