/** The client's side of a login: authorization code with PKCE (RFC 7636), answered to a loopback address (RFC 8252). */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type Bound, hostOf, nonceFor } from '@flynn/controller/access/login-nonce';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { isSameSecret, newSecret } from '@flynn/kit/secrets';
import { withDeadline } from '@flynn/kit/retry';
import { z } from 'zod';

const fetchMs = 15_000;
/** As long as somebody looks for their second factor. */
const patienceMs = 5 * 60_000;
/** As long as it takes to hand a browser on this machine a line of text. */
const closeMs = 1_000;

const configSchema = z.looseObject({ authorization_endpoint: z.url(), token_endpoint: z.url() });
/** RFC 6749, 5.2. */
const refusalSchema = z.looseObject({ error: z.string(), error_description: z.string().optional() });
const tokensSchema = z.looseObject({ id_token: z.string(), access_token: z.string().optional() });

export type Provider = { issuer: string; clientId: string; scope: string };

/** What the browser comes back with: `code` and `state`, or `error`. */
export type Answer = URLSearchParams;

export type Asking = {
  /** Shows somebody the address to open; where no browser can reach this machine, also asks for the one it ends up at. */
  ask: (url: string) => Promise<Answer | undefined>;
};

/**
 * An identity token, the nonce it was asked for with, what that is made of, and what opens what the provider tells of its owner
 * besides. It is good at the controller that it was asked for, and at no other, whatever that one makes of it.
 */
export type Proof = { idToken: string; nonce: string; bound: Bound; accessToken?: string };

export async function askProvider(controllerUrl: string, provider: Provider, { ask }: Asking): Promise<Proof> {
  const { issuer, clientId, scope } = provider;
  const config = await fetchJson(configSchema, `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`);
  const [state, verifier] = [newSecret(), newSecret(48)];
  // By the address it is known by here, not by what it says of itself.
  const bound = { host: hostOf(controllerUrl), secret: newSecret() };
  const nonce = nonceFor(bound);
  await using loopback = await listen(state);
  const url = new URL(config.authorization_endpoint);
  const query = {
    response_type: 'code',
    client_id: clientId,
    redirect_uri: loopback.redirectUri,
    scope,
    state,
    nonce,
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  };
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  const answer = (await ask(url.href)) ?? (await loopback.answer());
  const code = codeOf(answer, state);
  const form = new URLSearchParams({
    grant_type: 'authorization_code',
    code,
    redirect_uri: loopback.redirectUri,
    client_id: clientId,
    code_verifier: verifier,
  });
  const tokens = await fetchJson(tokensSchema, config.token_endpoint, { method: 'POST', body: form });
  const { id_token: idToken, access_token: accessToken } = tokens;
  return { idToken, nonce, bound, ...(accessToken === undefined ? {} : { accessToken }) };
}

/** What is not the answer to this login, whoever sends it here, is none. */
function codeOf(answer: Answer, state: string): string {
  const error = answer.get('error');
  if (!isSameSecret(answer.get('state') ?? '', state)) {
    throw new FlynnError('denied', 'the answer is not one to this login: start again with "flynn login"');
  }
  if (error !== null) {
    throw new FlynnError('denied', `the provider refused: ${answer.get('error_description') ?? error}`);
  }
  const code = answer.get('code');
  if (code === null || code === '')
    throw new FlynnError('invalid', 'the answer holds no code: start again with "flynn login"');
  return code;
}

type Loopback = AsyncDisposable & { redirectUri: string; answer: () => Promise<Answer> };

/** For one answer, on a port nobody else knows of. What is not to this login, as some page may send it here, does not end it. */
async function listen(state: string): Promise<Loopback> {
  const answered = Promise.withResolvers<Answer>();
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://127.0.0.1');
    const isCallback = url.pathname === '/callback';
    const isOurs = isCallback && isSameSecret(url.searchParams.get('state') ?? '', state);
    const status = isOurs ? 200 : isCallback ? 400 : 404;
    response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', connection: 'close' });
    response.end(
      isOurs
        ? 'That is all: you can close this page and go back to the terminal.\n'
        : 'This is not the answer to the login that is under way: open the address that the terminal shows.\n',
    );
    if (isOurs) answered.resolve(url.searchParams);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return {
    redirectUri: `http://127.0.0.1:${port}/callback`,
    answer: async () => {
      const late = withDeadline(patienceMs);
      const gaveUp = new FlynnError(
        'timeout',
        'nobody logged in within 5 minutes; where the browser cannot reach this machine: flynn login --paste',
      );
      late.addEventListener('abort', () => answered.reject(gaveUp), { once: true });
      return answered.promise;
    },
    async [Symbol.asyncDispose]() {
      const closed = once(server, 'close');
      server.close();
      server.closeIdleConnections();
      // The browser has its page first, whatever became of the login.
      const late = setTimeout(() => server.closeAllConnections(), closeMs);
      await closed;
      clearTimeout(late);
    },
  };
}

async function fetchJson<S extends z.ZodType>(schema: S, url: string, init: RequestInit = {}): Promise<z.output<S>> {
  try {
    const answer = await fetch(url, { ...init, signal: withDeadline(fetchMs), redirect: 'error' });
    if (!answer.ok) throw refusalOf(answer.status, await answer.text());
    return schema.parse(await answer.json());
  } catch (error) {
    if (hasCode(error, 'denied')) throw error;
    const what = `the provider cannot be asked (${url}): ${messageOf(error)}`;
    const remedy = 'see to it that this machine reaches it, and try again';
    throw new FlynnError('unavailable', `${what}\n  ${remedy}`, { cause: error });
  }
}

/** `denied` with the provider's reason, or `unavailable` when it gave none as the standard has it. */
function refusalOf(status: number, body: string): FlynnError {
  const refusal = refusalSchema.safeParse(parsed(body)).data;
  if (refusal === undefined || status >= 500) {
    return new FlynnError('unavailable', `it answered with status ${status}: ${body.slice(0, 200)}`);
  }
  const { error, error_description: why } = refusal;
  const remedy =
    error === 'invalid_client' || error === 'unauthorized_client'
      ? 'an admin registers the client there as public (or native), with authorization code and PKCE and without a secret: docs/access.md'
      : 'start again with "flynn login"';
  return new FlynnError(
    'denied',
    `the provider refused: ${why === undefined ? error : `${why} (${error})`}\n  ${remedy}`,
  );
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
