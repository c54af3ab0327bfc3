import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Identity } from '@flynn/controller/access/model';
import { createApi } from './api/client.ts';
import { Failure } from './api/failure.ts';
import {
  endSession,
  formerOf,
  loggedOutElsewhere,
  roleText,
  type Session,
  sessionOver,
  sessionRead,
  tokenOf,
} from './session.ts';

describe('a login by an address', () => {
  it('takes the token of /login alone', () => {
    assert.equal(tokenOf({ pathname: '/login', hash: '#flynn_a%2Bb' }), 'flynn_a+b');
    assert.equal(tokenOf({ pathname: '/login', hash: '#' }), undefined);
    assert.equal(tokenOf({ pathname: '/apps', hash: '#flynn_ab' }), undefined);
    assert.equal(tokenOf({ pathname: '/login', hash: '#%E0' }), undefined);
  });
});

describe('logging out', () => {
  const message = 'this browser has forgotten the login, but its token could not be taken back: flynn token revoke t1';
  const refusal = (status: number, code: string, text: string) => () =>
    Response.json({ code, message: text, detail: {} }, { status });
  const done = () => new Response(undefined, { status: 204 });
  const unheard = () => {
    throw new TypeError('Failed to fetch');
  };
  const nobody = refusal(401, 'unauthenticated', 'nobody is logged in here, or the login is over');

  /** With those answers to DELETE and GET of /session. */
  function loggedOut(answers: { delete: () => Response; get: () => Response }) {
    const answer = { DELETE: answers.delete, GET: answers.get };
    return endSession(
      createApi({ fetch: async (_url, { method }) => answer[method as 'DELETE'](), onSessionOver: () => {} }),
    );
  }

  it('is over where the browser has no login any more, and says what is left to do', async () => {
    const away = refusal(503, 'unavailable', message);
    assert.deepEqual(await loggedOut({ delete: done, get: unheard }), { is: 'out', why: 'You are logged out.' });
    assert.deepEqual(await loggedOut({ delete: away, get: nobody }), { is: 'out', why: message });
    const lost = await loggedOut({ delete: unheard, get: nobody });
    assert.equal(lost.is, 'out');
  });

  it('is not over where the browser has the login still, or nobody says', async () => {
    const denied = refusal(403, 'denied', 'this is for a page of its own');
    await assert.rejects(loggedOut({ delete: denied, get: () => Response.json({}) }), { code: 'denied' });
    await assert.rejects(loggedOut({ delete: unheard, get: unheard }), { code: 'unavailable', message: /network/ });
    const away = refusal(503, 'unavailable', 'the controller is away');
    await assert.rejects(loggedOut({ delete: away, get: away }), { message: 'the controller is away' });
  });
});

describe('who somebody is', () => {
  const nobody = { kind: 'user' as const, name: 'ann', role: 'none' as const, teams: [], apps: [] };
  it('is told by the role they act in', () => {
    assert.equal(roleText(nobody), 'no role yet');
    assert.equal(roleText({ ...nobody, apps: [{ name: 'shop', role: 'viewer' }] }), 'roles on one app');
    assert.equal(roleText({ ...nobody, kind: 'root', role: 'admin' }), 'root key');
    assert.equal(roleText({ ...nobody, kind: 'root', role: 'admin', token: { id: 't' } }), 'admin');
  });
});

describe('a session that is over', () => {
  const identity: Identity = { kind: 'user', name: 'ann', role: 'developer', teams: [], apps: [] };
  const cluster = {
    name: 'test',
    domain: 'example.com',
    formerDomains: [],
    gitUrl: 'ssh://git@example.com',
    httpPort: 80,
    version: '0',
    keepsRegistryLogins: true,
    heedsBuildPlace: true,
  };
  const session = { is: 'in', identity, cluster } as const;

  it('is known until somebody is in again, whatever comes between', () => {
    const away = new Failure('unavailable', 'the cluster cannot be reached');
    const known = [{ is: 'out' } as const, away, new Failure('unauthenticated', 'the login is over')].reduce<Session>(
      sessionRead,
      sessionOver(session),
    );
    assert.deepEqual(known, { is: 'out', why: 'the login is over', former: session });
    assert.equal(formerOf(sessionRead(known, away)), session);
    assert.deepEqual(sessionRead(known, session), session);
  });

  it('leaves nothing where it was ended in another tab', () => {
    assert.equal(formerOf(loggedOutElsewhere), undefined);
    assert.equal(formerOf(sessionRead(loggedOutElsewhere, new Failure('unavailable', 'away'))), undefined);
    assert.equal(
      sessionOver(loggedOutElsewhere),
      loggedOutElsewhere,
      'a stream that ends after it brings nothing back',
    );
  });

  it('is nobody’s where there was none', () => {
    const known = sessionRead({ is: 'checking' }, { is: 'out' });
    assert.deepEqual(known, { is: 'out' });
    assert.equal(sessionOver(known), known);
  });
});
