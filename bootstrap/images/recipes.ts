/** What every image of the platform consists of. */
import { allocatorEnv, allocatorPackage } from '../agent/allocator.ts';

export const imageNames = [
  'base',
  'node',
  'git',
  'build-tools',
  'etcd',
  'controller',
  'runner',
  'blobstore',
  'log-aggregator',
  'router',
  'git-receiver',
  'dashboard',
  'slug-builder',
  'slug-runner',
  'python',
  'postgres',
  'redis',
  'mysql',
] as const;
/** Built for tests alone: the platform never asks for them. */
export const testImageNames = ['proxies'] as const;
export type ImageName = (typeof imageNames)[number] | (typeof testImageNames)[number];

/** A file or folder put into the image. */
export type FileSource =
  /** From this repository; a folder with everything in it. */
  | { type: 'repository'; source: string; path: string; mode: number }
  /** One file made by esbuild from a program and all it imports. */
  | { type: 'bundle'; entry: string; path: string }
  /** The dashboard's pages, as a folder. */
  | { type: 'web'; path: string }
  /** A package fetched from the npm registry when the image is built. */
  | { type: 'npm'; name: string; version: string; path: string }
  /** The Node binary of node_modules. */
  | { type: 'node'; path: string }
  /** What native packages are compiled against. */
  | { type: 'node-headers'; path: string }
  /** The certificates this machine trusts, so that builds reach what the machine reaches. */
  | { type: 'certificates'; path: string }
  | { type: 'text'; text: string; path: string; mode: number }
  | { type: 'link'; target: string; path: string };

export type ImageRecipe = Readonly<{
  /** Without one: Debian itself. */
  parent?: ImageName;
  /** Debian's packages. */
  packages?: readonly string[];
  files?: readonly FileSource[];
  /** Shell commands that end the build, as root. */
  setup?: string;
  entrypoint?: readonly string[];
  command: readonly string[];
  env?: Readonly<Record<string, string>>;
  workingDirectory?: string;
  /** Its /usr/bin/node may be the host agent's own, where that is the same: one copy in memory serves them all. */
  isNodeShared?: boolean;
}>;

export const debianSuite = 'trixie';

const programs = '/usr/lib/flynn';

/** Who builds and runs apps; the same in both images, so that what one makes is the other's. */
const appUser = `useradd --uid 5000 --user-group --home-dir /app --no-create-home --shell /bin/bash app
install -d -o app -g app /app`;

const basePackages = ['ca-certificates', 'tzdata', 'netbase', 'libstdc++6'];
/** What every slug finds beside itself: what languages and their libraries need most, so that it is not in each slug. */
const runnerPackages = [
  'bash',
  'curl',
  'libicu76',
  'libpq5',
  'libmariadb3',
  'libyaml-0-2',
  'libffi8',
  'zlib1g',
  'libreadline8t64',
];

/** What packages with native parts are compiled against: of what the runner has. */
const runnerHeaders = [
  'libffi-dev',
  'libmariadb-dev',
  'libpq-dev',
  'libreadline-dev',
  'libssl-dev',
  'libyaml-dev',
  'zlib1g-dev',
];
/** What builds use, those of published buildpacks too: they take it for granted. */
const buildTools = [
  'build-essential',
  'file',
  'git',
  'jq',
  'openssh-client',
  'openssl',
  'pkgconf',
  'procps',
  'python3',
  'rsync',
  'unzip',
  'wget',
  'xz-utils',
  'zip',
  'zstd',
];

/** For those that make little garbage, or seldom: a small nursery, one thread beside the main one. 5 MB less. */
const quiet = ['--max-semi-space-size=2', '--v8-pool-size=1'];

/**
 * For those that carry many connections, who wait for each collection of the heap. What TLS and buffers have outside of it counts
 * as what is in it does: by itself, V8 collects all for some hundred new TLS connections each, a sixth of what they cost. And it
 * may become twice what lives in it before: by itself, V8 grants it two megabytes more, and the slowest hundredth of answers
 * waits for that, each second or two.
 */
const manyConnections = ['--external-memory-accounted-in-global-limit', '--heap-growing-percent=100'];

/**
 * For those, too: their memory is glibc's, in one heap for all threads; what is free at its end goes back at once. jemalloc takes
 * 10 MB less of a router at rest, and a tenth more CPU for each new connection.
 */
const oneHeap = { MALLOC_ARENA_MAX: '1', MALLOC_TRIM_THRESHOLD_: '131072' };

/** Debian's packages are its parent's: a program that changed has its image made in a second, and loaded as one thin layer. */
function service(
  entry: string,
  {
    parent = 'node',
    files = [],
    flags = [],
    memory = allocatorEnv,
    env = {},
  }: {
    parent?: ImageName;
    files?: readonly FileSource[];
    flags?: readonly string[];
    memory?: Readonly<Record<string, string>>;
    env?: Readonly<Record<string, string>>;
  } = {},
): ImageRecipe {
  const path = `${programs}/main.mjs`;
  return {
    parent,
    files: [{ type: 'bundle', entry, path }, ...files],
    entrypoint: ['/usr/bin/node', ...flags, '--disable-warning=ExperimentalWarning', path],
    command: [],
    isNodeShared: true,
    env: { NODE_ENV: 'production', ...memory, ...env },
  };
}

export const recipes: Readonly<Record<ImageName, ImageRecipe>> = {
  base: {
    packages: basePackages,
    // Documentation nobody reads in a container is half of what packages bring.
    files: [
      {
        type: 'text',
        path: '/etc/dpkg/dpkg.cfg.d/90flynn-slim',
        mode: 0o644,
        text: ['doc', 'man', 'info', 'locale', 'lintian'].map((name) => `path-exclude=/usr/share/${name}/*\n`).join(''),
      },
    ],
    command: ['/bin/bash'],
    env: { LANG: 'C.UTF-8' },
  },
  node: {
    parent: 'base',
    packages: [allocatorPackage],
    files: [{ type: 'node', path: '/usr/bin/node' }],
    command: ['/usr/bin/node'],
    env: { LANG: 'C.UTF-8' },
  },
  git: {
    parent: 'node',
    packages: ['git', 'openssh-client'],
    command: ['/bin/bash'],
    env: { LANG: 'C.UTF-8' },
  },
  'build-tools': {
    parent: 'node',
    packages: [...runnerPackages, ...buildTools, ...runnerHeaders],
    files: [
      { type: 'node-headers', path: '/usr/include/node' },
      { type: 'npm', name: 'npm', version: '11.21.2', path: '/usr/lib/node_modules/npm' },
      { type: 'link', target: '../lib/node_modules/npm/bin/npm-cli.js', path: '/usr/bin/npm' },
      { type: 'link', target: '../lib/node_modules/npm/bin/npx-cli.js', path: '/usr/bin/npx' },
      { type: 'certificates', path: '/etc/ssl/certs/ca-certificates.crt' },
    ],
    setup: appUser,
    command: ['/bin/bash'],
    env: { LANG: 'C.UTF-8' },
  },
  etcd: {
    parent: 'base',
    packages: ['etcd-server'],
    entrypoint: ['/usr/bin/etcd'],
    command: [],
  },
  controller: service('layer1/controller/main.ts'),
  // It looks at the repositories that apps follow.
  runner: service('layer1/runner/main.ts', { parent: 'git', flags: quiet }),
  blobstore: service('layer1/blobstore/main.ts', { flags: quiet }),
  'log-aggregator': service('layer1/log-aggregator/main.ts'),
  router: service('layer1/router/main.ts', { flags: manyConnections, memory: oneHeap }),
  'git-receiver': service('layer1/git-receiver/main.ts', { parent: 'git', flags: quiet }),
  dashboard: service('layer1/dashboard/main.ts', {
    flags: quiet,
    files: [{ type: 'web', path: `${programs}/web` }],
    env: { FLYNN_WEB_DIR: `${programs}/web` },
  }),
  'slug-builder': {
    parent: 'build-tools',
    files: [
      { type: 'bundle', entry: 'layer1/slug-builder/main.ts', path: `${programs}/slug-builder.mjs` },
      // Static sites carry it along as it is.
      ...['static-server.ts', 'static-rules.ts'].map((name) => ({
        type: 'repository' as const,
        source: `layer1/slug-builder/${name}`,
        path: `${programs}/${name}`,
        mode: 0o644,
      })),
      { type: 'repository', source: 'layer1/slug-builder/php/php-web', path: `${programs}/php-web`, mode: 0o755 },
      {
        type: 'text',
        text: [...basePackages, ...runnerPackages].map((name) => `${name}\n`).join(''),
        path: `${programs}/runner-packages`,
        mode: 0o644,
      },
    ],
    entrypoint: ['/usr/bin/node', '--disable-warning=ExperimentalWarning', `${programs}/slug-builder.mjs`],
    command: [],
    env: { NODE_EXTRA_CA_CERTS: '/etc/ssl/certs/ca-certificates.crt' },
  },
  'slug-runner': {
    parent: 'base',
    packages: runnerPackages,
    files: [{ type: 'repository', source: 'layer1/slug-builder/flynn-run', path: '/usr/bin/flynn-run', mode: 0o755 }],
    setup: appUser,
    command: ['/bin/bash'],
    env: { LANG: 'C.UTF-8' },
  },
  // All databases are watched over by programs in it.
  python: {
    parent: 'base',
    packages: ['python3'],
    command: ['/bin/bash'],
    env: { LANG: 'C.UTF-8' },
  },
  postgres: {
    parent: 'python',
    packages: ['patroni', 'postgresql-17', 'python3-etcd', 'zstd'],
    files: [
      // Patroni makes the databases there are.
      {
        type: 'text',
        text: 'create_main_cluster = false\n',
        path: '/etc/postgresql-common/createcluster.d/flynn.conf',
        mode: 0o644,
      },
      // For clients: a primary whose host is gone does not say so.
      {
        type: 'text',
        text: '[flynn]\nkeepalives_idle=5\nkeepalives_interval=2\nkeepalives_count=3\ntcp_user_timeout=11000\n',
        path: '/etc/postgresql-common/pg_service.conf',
        mode: 0o644,
      },
      ...['', '-begin', '-client', '-history', '-members', '-owners', '-put', '-recover', '-roles', '-settle'].map(
        (name) => ({
          type: 'repository' as const,
          source: `layer1/appliances/postgres/flynn-postgres${name}`,
          path: `${programs}/flynn-postgres${name}`,
          mode: 0o755,
        }),
      ),
    ],
    // What is on volumes is a user's whose number no later package may change. The compiler of queries is a third of the image,
    // and seldom of use to what is small. That Patroni lets nobody lead unheard for less than 20 s is a guess of its own: whatever
    // else it does goes by what it is told. A primary without the store asks the other members for a second, once, and not for 4 s,
    // which nothing that it is told leaves room for (flynn-postgres, ttl).
    setup: `cd /usr/lib/python3/dist-packages/patroni
sed -i "s/(config, 'ttl', 20)/(config, 'ttl', 8)/" config.py
grep -q "(config, 'ttl', 8)" config.py
sed -i "s/request(member, 'post', endpoint, data, timeout=2, retries=1)/request(member, 'post', endpoint, data, timeout=1, retries=0)/" ha.py
grep -q "request(member, 'post', endpoint, data, timeout=1, retries=0)" ha.py
python3 -P -m py_compile config.py ha.py
groupmod --gid 5432 postgres && usermod --uid 5432 postgres
rm -rf /usr/lib/*/libLLVM* /usr/lib/*/libz3* /usr/lib/postgresql/17/lib/llvmjit* /usr/lib/postgresql/17/lib/bitcode`,
    entrypoint: [`${programs}/flynn-postgres`],
    command: [],
    env: { LANG: 'C.UTF-8' },
  },
  redis: {
    parent: 'python',
    packages: ['valkey-server', 'valkey-tools'],
    files: membersPrograms('redis'),
    // What is on volumes is a user's whose number no later package may change.
    setup: `groupmod --gid 6379 valkey && usermod --uid 6379 valkey
python3 -P -m compileall -q ${programs}/redis`,
    entrypoint: [`${programs}/redis/flynn-redis`],
    command: [],
    env: { LANG: 'C.UTF-8' },
  },
  mysql: {
    parent: 'python',
    // Apps may call time zones as they did elsewhere: US/Eastern is among the legacy ones.
    packages: ['mariadb-backup', 'mariadb-server', 'python3-pymysql', 'tzdata-legacy'],
    files: membersPrograms('mysql'),
    // As with Redis. The data that Debian makes are nobody's: a member makes its own, with the time zones that are written down
    // here, without those that count leap seconds. Programs that no member uses are large: each has all of the client library.
    setup: `groupmod --gid 3306 mysql && usermod --uid 3306 mysql
rm -rf /var/lib/mysql /usr/share/zoneinfo/right
mariadb-tzinfo-to-sql /usr/share/zoneinfo > ${programs}/mysql/zones.sql
cd /usr/bin
rm -f aria_* innochecksum mariadb-admin mariadb-check mariadb-conv mariadb-import mariadb-plugin mariadb-show mariadb-slap \\
  mariadb-tzinfo-to-sql mariadb-upgrade mariadb-waitpid mariadbd-safe-helper myisam* perror replace resolve_stack_dump
python3 -P -m compileall -q ${programs}/mysql`,
    entrypoint: [`${programs}/mysql/flynn-mysql`],
    command: [],
    env: { LANG: 'C.UTF-8' },
  },
  proxies: {
    parent: 'base',
    packages: ['caddy', 'haproxy', 'nghttp2-client', 'nginx-light', 'wrk'],
    command: ['/bin/bash'],
  },
};

/** Of a datastore whose members agree by programs of ours: what all kinds have, and its own, in one folder. */
function membersPrograms(kind: string): readonly FileSource[] {
  return ['members', kind].map((folder) => ({
    type: 'repository',
    source: `layer1/appliances/${folder}/programs`,
    path: `${programs}/${kind}`,
    mode: 0o755,
  }));
}
