/** A controller with a provider of identities, and somebody who logs in there. For tests. */
import { HttpClient } from '@flynn/kit/http-client';
import { apps } from '../api.ts';
import { createControllerClient } from '../client.ts';
import { routing } from '../routes/api.ts';
import { type TestController, startTestController } from '../testing.ts';
import { login } from './api-login.ts';
import { self } from './api.ts';
import { nonceFor } from './login-nonce.ts';
import type { Identity } from './model.ts';
import { OidcProvider } from './oidc-fixture.ts';
import type { OidcSettings } from './oidc.ts';

const bound = { host: '127.0.0.1', secret: 'a-secret-of-this-login' };
export const nonce = nonceFor(bound);

/** The controller of the tests has that name, too. */
export async function nameController({ client }: TestController, domain: string): Promise<void> {
  await client.call(apps.create, { body: { name: 'controller', isSystem: true } });
  const body = { type: 'http', service: 'controller', domain } as const;
  await client.call(routing.create, { params: { app: 'controller' }, body });
}

export function settingsFor(provider: OidcProvider): OidcSettings {
  const { issuer, clientId } = provider;
  return { issuer, clientId, domains: ['example.com'], groupsClaim: 'groups', scopes: 'openid email profile' };
}

export type LoginWorld = AsyncDisposable & {
  provider: OidcProvider;
  world: TestController;
  logIn: (idToken: string, accessToken?: string) => Promise<{ user: string; token: string; expiresAt: string }>;
  /** Who is logged in at the provider logs in here: whom they are taken for, and what they may. */
  comeIn: () => Promise<Identity>;
};

export async function startLogin(more: Partial<OidcSettings> = {}): Promise<LoginWorld> {
  const provider = await OidcProvider.start();
  const oidc = { ...settingsFor(provider), ...more };
  const world = await startTestController({ hosts: 0, hasWorker: false, oidc });
  await nameController(world, bound.host);
  const anybody = new HttpClient({ baseUrl: world.url, name: 'the controller' });
  const logIn = async (idToken: string, accessToken?: string) =>
    anybody.call(login.create, {
      body: { idToken, nonce, bound, ...(accessToken === undefined ? {} : { accessToken }) },
    });
  return {
    provider,
    world,
    logIn,
    async comeIn() {
      const { token } = await logIn(provider.sign({ nonce }), provider.accessToken);
      await using client = createControllerClient({ baseUrl: world.url, key: token });
      return await client.call(self.get, {});
    },
    async [Symbol.asyncDispose]() {
      await anybody.close();
      await world[Symbol.asyncDispose]();
      await provider[Symbol.asyncDispose]();
    },
  };
}
