/** Somebody at their desk, a controller that they log in to, and the page that the command shows. For tests. */
import { startLogin } from '@flynn/controller/access/login-fixture';
import type { OidcSettings } from '@flynn/controller/access/oidc';
import { waitFor } from '@flynn/kit/retry';
import { Desk, type TestIo } from '../testing.ts';

export async function startDesk(more: Partial<OidcSettings> = {}) {
  const it = await startLogin({ scopes: 'openid email profile groups', ...more });
  const desk = await Desk.open();
  return {
    provider: it.provider,
    controller: it.world,
    desk,
    async [Symbol.asyncDispose]() {
      await desk[Symbol.asyncDispose]();
      await it[Symbol.asyncDispose]();
    },
  };
}

/** The address that the command shows, once it does. */
export async function pageOf(io: TestIo): Promise<string> {
  return waitFor(() => /^ {2}(http\S+)$/m.exec(io.stderr.text)?.[1], {
    what: 'the page',
    deadlineMs: 60_000,
    intervalMs: 10,
  });
}
