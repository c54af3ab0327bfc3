/** Requests and their answers, in an order in which they can be sent; a test sends them. By operation id. */
export type Example = Readonly<{
  params?: Readonly<Record<string, string>>;
  body?: unknown;
  response?: unknown;
}>;

const at = '2026-11-21T12:00:00.000Z';

const app = {
  id: 'k3v9x2m1q8aa',
  name: 'shop',
  meta: {},
  isSystem: false,
  deployTimeoutMs: 120_000,
  rollout: { strategy: 'all-at-once', canaries: 1, minHealthyMs: 0 },
  createdAt: at,
  updatedAt: at,
};

/** As they are if nobody says. */
const http = {
  stripPath: false,
  leader: false,
  sticky: false,
  weights: [],
  releaseAffinity: false,
  protocol: 'http1',
  limits: {},
  timeouts: {},
  bufferBytes: 0,
  pages: {},
  https: { redirect: false, hstsSeconds: 0, hstsSubdomains: false },
};
const route = {
  id: 'z1x2c3v4b5nn',
  appId: 'k3v9x2m1q8aa',
  type: 'http',
  domain: 'shop.example.com',
  path: '/',
  service: 'shop-web',
  http,
  tcp: { leader: false },
  createdAt: at,
  revision: 4711,
};

const resource = {
  id: 'g2dkvhqhwg0l',
  provider: 'postgres',
  externalId: 'db/17',
  config: { plan: 'small' },
  variables: ['DATABASE_URL'],
  state: 'ready',
  apps: [{ appId: 'k3v9x2m1q8aa', state: 'added', releaseId: 'fzbnz3pshti1', version: 7 }],
  createdAt: at,
};

export const examples: Readonly<Record<string, Example>> = {
  postApps: { body: { name: 'shop' }, response: app },
  getAppsApp: { params: { app: 'shop' }, response: app },
  postArtifacts: {
    body: { type: 'image', image: { name: 'registry.example.com/shop:1' } },
    response: {
      id: 'a7c2d9e0b1ff',
      type: 'image',
      image: { name: 'registry.example.com/shop:1' },
      meta: {},
      createdAt: at,
    },
  },
  postAppsAppReleases: {
    params: { app: 'shop' },
    body: { env: { GREETING: 'hello' }, meta: { 'git.branch': 'main' } },
    response: {
      id: 'r5t8y1u4i7oo',
      appId: 'k3v9x2m1q8aa',
      version: 1,
      env: { GREETING: 'hello' },
      processes: {},
      meta: { 'git.branch': 'main' },
      createdAt: at,
    },
  },
  postAppsAppRoutes: {
    params: { app: 'shop' },
    body: { type: 'http', domain: 'shop.example.com' },
    response: route,
  },
  patchAppsAppRoutesRoute: {
    params: { app: 'shop', route: 'shop.example.com' },
    body: { http: { limits: { requestsPerSecond: 20 }, https: { redirect: true }, timeouts: { totalMs: null } } },
    response: {
      ...route,
      http: { ...http, limits: { requestsPerSecond: 20 }, https: { ...http.https, redirect: true } },
    },
  },
  postProviders: {
    body: { name: 'postgres', url: 'http://postgres.flynn/resources', token: 'a-secret-of-the-provider' },
    response: {
      id: 'p4o3s2t1g0rr',
      name: 'postgres',
      url: 'http://postgres.flynn/resources',
      hasToken: true,
      createdAt: at,
    },
  },
  getProvidersProvider: {
    params: { provider: 'postgres' },
    response: {
      id: 'p4o3s2t1g0rr',
      name: 'postgres',
      url: 'http://postgres.flynn/resources',
      hasToken: true,
      createdAt: at,
    },
  },
  postProvidersProviderResources: {
    params: { provider: 'postgres' },
    body: { config: { plan: 'small' }, apps: ['shop'] },
    response: resource,
  },
  getResources: { response: [resource] },
  postUsers: {
    body: { name: 'ann', role: 'developer' },
    response: { id: 'u9i8o7p6a5ss', name: 'ann', role: 'developer', teams: [], createdAt: at },
  },
  postTeams: {
    body: { name: 'ops' },
    response: { id: 't1t2t3t4t5tt', name: 'ops', members: [], createdAt: at },
  },
  putAppsAppAccessKindName: {
    params: { app: 'shop', kind: 'user', name: 'ann' },
    body: { role: 'admin' },
    response: { appId: 'k3v9x2m1q8aa', kind: 'user', name: 'ann', role: 'admin', createdAt: at },
  },
  postTokens: {
    body: { name: 'ci', role: 'developer', apps: ['shop'], expiresInMs: 86_400_000 },
    response: {
      id: 'b2n3m4k5j6hh',
      name: 'ci',
      role: 'developer',
      apps: ['shop'],
      expiresAt: '2026-11-22T12:00:00.000Z',
      createdAt: at,
      token: 'flynn_b2n3m4k5j6hh_…',
    },
  },
  getWhoami: {
    response: { kind: 'root', name: 'root', role: 'admin', teams: [], apps: [] },
  },
};
