/** What becomes of what somebody presses on the pages. */
import assert from 'node:assert/strict';
import { before, describe, it, type TestContext } from 'node:test';
import type { Identity } from '@flynn/controller/access/model';
import type { Release } from '@flynn/controller/model';
import type { Line } from '@flynn/log-aggregator/api';
import type { Api } from './api/client.ts';
import { Failure } from './api/failure.ts';
import type { StreamEvent } from './api/streams.ts';
import { loadBundled } from './bundling-fixture.ts';
import type { OpenPage } from './document-fixture.ts';
import { type Session, sessionOver } from './session.ts';
import { fakeTimers } from './timers-fixture.ts';
import { put, someApp, someFormation, someJob, someRelease, whole } from './world/world-fixture.ts';

type Facts = Readonly<{
  told?: readonly StreamEvent[];
  call?: Api['call'];
  stream?: Api['stream'];
  onLogOut?: () => Promise<void>;
}>;
type In = Extract<Session, { is: 'in' }>;
type Gated = OpenPage & { be: (session: Session) => void; visit: (path: string) => void; session: In };
type Acting = {
  openPage: (path: string, facts: Facts & { identity: Identity }) => OpenPage;
  openGate: (path: string, facts: Facts & { identity: Identity }) => Gated;
};

const identity: Identity = { kind: 'user', name: 'ann', role: 'developer', teams: [], apps: [] };
const running = [put('app', someApp()), put('formation', someFormation({ web: 2 })), put('job', someJob()), whole];

/** What the app said so many seconds after noon. */
function logLine(second: number): Line {
  const timestamp = `2020-01-31T12:00:0${second}.000Z`;
  return { jobId: 'j1', hostId: 'h1', processType: 'web', stream: 'stdout', timestamp, message: `line ${second}` };
}

describe('on the pages', () => {
  let acting: Acting;
  before(async () => {
    acting = await loadBundled('acting-fixture.tsx');
  });

  /** Time goes by where the test says so, by `after`. */
  function open(t: TestContext, path: string, facts: Facts = {}) {
    return watched(t, () => acting.openPage(path, { identity, told: running, ...facts }));
  }

  function openGate(t: TestContext, path: string, facts: Facts = {}) {
    return watched(t, () => acting.openGate(path, { identity, told: running, ...facts }));
  }

  function watched<Of extends OpenPage>(t: TestContext, opened: () => Of) {
    const { after, restore } = fakeTimers();
    const page = opened();
    t.after(async () => {
      await page.close();
      // What the page still waited to do is not done without its document.
      restore();
    });
    return { ...page, after, text: () => page.document.root.textContent };
  }

  /** Notes counts that are put, and answers as it is told to. */
  function scaling(answer: () => Promise<void> = async () => {}) {
    const puts: unknown[] = [];
    const call = async (line: string, input: unknown) => {
      if (!line.startsWith('PUT /apps/:app/formations/')) return new Promise(() => {});
      puts.push((input as { body: { processes: unknown } }).body.processes);
      return answer();
    };
    return { puts, call: call as Api['call'] };
  }

  it('presses of + are one change, which is not made again where somebody else changes it back', async (t) => {
    const { puts, call } = scaling();
    const page = open(t, '/apps/shop', { call });
    await page.after(200);
    page.document.press('One web more');
    await page.after(200);
    page.document.press('One web more');
    await page.after(1_000);
    assert.match(page.text(), /web−4\+scaling …/);
    await page.after(2_000);
    page.tell(put('formation', someFormation({ web: 10 })));
    await page.after(200);
    assert.match(page.text(), /web−10\+1 up/);
    await page.after(20_000);
    assert.deepEqual(puts, [{ web: 4 }]);
    page.document.press('One web more');
    await page.after(1_000);
    assert.deepEqual(puts, [{ web: 4 }, { web: 11 }]);
  });

  it('a change that the cluster does not tell of is not made again, and not shown for long', async (t) => {
    const { puts, call } = scaling();
    const page = open(t, '/apps/shop', { call });
    await page.after(200);
    page.document.press('One web less');
    await page.after(20_000);
    assert.deepEqual(puts, [{ web: 1 }]);
    assert.match(page.text(), /web−2\+1 up/);
  });

  it('what is pressed while a change is under way is made after it', async (t) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const { puts, call } = scaling(() => promise);
    const page = open(t, '/apps/shop', { call });
    await page.after(200);
    page.document.press('One web more');
    await page.after(1_000);
    page.document.press('One web more');
    page.tell(put('formation', someFormation({ web: 3 })));
    await page.after(1_000);
    assert.deepEqual(puts, [{ web: 3 }]);
    resolve();
    await page.after(1_000);
    assert.deepEqual(puts, [{ web: 3 }, { web: 4 }]);
  });

  it('a change that is refused says why, and the next press is a change again', async (t) => {
    const refusal = new Failure('conflict', 'a deployment of shop is under way');
    const { puts, call } = scaling(() => (puts.length === 1 ? Promise.reject(refusal) : Promise.resolve()));
    const page = open(t, '/apps/shop', { call });
    await page.after(200);
    page.document.press('One web more');
    await page.after(1_000);
    assert.match(page.text(), /web−2\+1 upa deployment of shop is under way/);
    page.document.press('One web more');
    await page.after(1_000);
    assert.deepEqual(puts, [{ web: 3 }, { web: 3 }]);
  });

  it('a log-out that did not come about says so', async (t) => {
    const onLogOut = () => Promise.reject(new Failure('unavailable', 'the cluster cannot be reached'));
    const page = open(t, '/', { onLogOut });
    await page.after(200);
    page.document.press('Log out');
    await page.after(200);
    assert.match(page.text(), /the cluster cannot be reached/);
    page.document.button('Log out');
  });

  it('going back to a release replaces what was live as it was asked for, whatever is live at the click', async (t) => {
    const at = (version: number): Release => someRelease({ id: `r${version}`, version });
    let known = [at(2), at(1)];
    const asked: unknown[] = [];
    const overtaken = new Failure('conflict', 'shop was changed by somebody else', { isOvertaken: true });
    const call = async (line: string, input: unknown) => {
      if (line === 'GET /apps/:app/releases') return known;
      if (line !== 'POST /apps/:app/deployments') return new Promise(() => {});
      asked.push((input as { body: unknown }).body);
      throw overtaken;
    };
    const told = [put('app', someApp({ releaseId: 'r2' })), whole];
    const page = open(t, '/apps/shop/releases', { told, call: call as Api['call'] });
    await page.after(200);
    page.document.press('Deploy v1');
    await page.after(200);
    assert.match(page.text(), /It has the same .* as v2, which is live/);
    known = [at(3), at(2), at(1)];
    page.tell(put('app', someApp({ releaseId: 'r3' })));
    await page.after(500);
    assert.match(page.text(), /v3 live/);
    assert.match(page.text(), /It has the same .* as v2, which is live/);
    page.document.press('Deploy v1', 'dialog');
    await page.after(200);
    assert.deepEqual(asked, [{ releaseId: 'r1', replaces: 'r2' }]);
    assert.match(page.text(), /shop was changed by somebody else/);
  });

  it('a log is let go of a minute after nobody looks at it any more, and goes on where it was', async (t) => {
    const kept = [logLine(1), logLine(2)];
    const asked: URL[] = [];
    const streams = new Set<URL>();
    const stream: Api['stream'] = async (url, { signal }) => {
      const own = new URL(url, 'http://flynn');
      asked.push(own);
      streams.add(own);
      return new ReadableStream({
        start(controller) {
          for (const line of kept) controller.enqueue(new TextEncoder().encode(`${JSON.stringify(line)}\n`));
          signal.addEventListener('abort', () => {
            streams.delete(own);
            controller.error(signal.reason);
          });
        },
        cancel: () => void streams.delete(own),
      });
    };
    const page = open(t, '/apps/shop/logs', { stream });
    const linesShown = () => page.text().match(/line \d/g);
    await page.after(500);
    assert.deepEqual(linesShown(), ['line 1', 'line 2']);

    page.document.show('hidden');
    await page.after(30_000);
    page.document.show('visible');
    await page.after(40_000);
    page.document.show('hidden');
    await page.after(59_000);
    assert.equal(streams.size, 1, 'who is away for a moment keeps it');
    await page.after(2_000);
    assert.equal(streams.size, 0);

    kept.push(logLine(3));
    const before = asked.length;
    await page.after(600_000);
    assert.equal(asked.length, before, 'nothing is asked meanwhile');
    page.document.show('visible');
    await page.after(500);
    assert.equal(streams.size, 1);
    assert.deepEqual(linesShown(), ['line 1', 'line 2', 'line 3']);
    assert.equal(asked.at(-1)?.searchParams.get('since'), '2020-01-31T11:59:02.000Z');
  });

  it('what takes longer to answer than the time after which it is read again is shown all the same', async (t) => {
    let asked = 0;
    const call = async (line: string, _input: unknown, { signal }: { signal?: AbortSignal } = {}) => {
      if (line !== 'GET /apps/:app/cron') return new Promise(() => {});
      asked += 1;
      await new Promise((resolve) => setTimeout(resolve, 12_000));
      signal?.throwIfAborted();
      return [];
    };
    const page = open(t, '/apps/shop/cron', { call: call as Api['call'] });
    await page.after(11_000);
    assert.match(page.text(), /Reading the schedule/);
    await page.after(4_000);
    assert.match(page.text(), /Nothing runs on a schedule/);
    assert.equal(asked, 1);
    await page.after(20_000);
    assert.equal(asked, 2, 'once it has answered it is read again');
  });

  it('what is being typed as the login ends is there still for who logs in again, and not for another', async (t) => {
    const page = openGate(t, '/');
    await page.after(200);
    page.document.press('New app');
    await page.after(200);
    page.document.button('Create');
    page.be(sessionOver(page.session));
    await page.after(200);
    page.document.button('Create', 'main');
    assert.match(page.text(), /The session is over: log in again/);
    page.be({ ...page.session, identity: { ...identity, token: { id: 't2' } } });
    await page.after(200);
    page.document.button('Create');
    assert.doesNotMatch(page.text(), /The session is over/);
    page.be(sessionOver(page.session));
    await page.after(200);
    page.be({ ...page.session, identity: { ...identity, name: 'bob' } });
    await page.after(200);
    page.document.button('New app');
  });

  it('nothing is left of the pages of who has logged out', async (t) => {
    const page = openGate(t, '/');
    await page.after(200);
    page.be({ is: 'out', why: 'You are logged out.' });
    await page.after(200);
    assert.doesNotMatch(page.text(), /New app|shop/);
    assert.match(page.text(), /You are logged out/);
  });

  it('who answers a question has the focus again where they were, or in the table where that is gone', async (t) => {
    const taken = (id: string) => ({
      id,
      name: id,
      user: 'ann',
      role: 'developer',
      createdAt: '2030-01-31T12:00:00.000Z',
    });
    let known = [taken('ci'), taken('laptop')];
    const call = async (line: string) => {
      if (line === 'GET /tokens') return known;
      if (line !== 'DELETE /tokens/:token') return new Promise(() => {});
      known = known.filter(({ id }) => id !== 'ci');
      return undefined;
    };
    const page = open(t, '/cluster/people', { call: call as Api['call'] });
    const focused = () => page.document.activeElement.attribute('aria-label') ?? page.document.activeElement.localName;
    await page.after(200);
    page.document.press('Take back ci');
    await page.after(200);
    page.document.press('Leave it', 'dialog');
    await page.after(200);
    assert.equal(focused(), 'Take back ci');
    page.document.press('Take back ci');
    await page.after(200);
    page.document.press('Take it back', 'dialog');
    await page.after(200);
    assert.doesNotMatch(page.text(), /ciann/);
    assert.equal(focused(), 'Tokens');
  });

  it('each page has a title of its own', async (t) => {
    const page = open(t, '/apps/shop/deployments/d1');
    await page.after(200);
    assert.equal(page.document.title, 'shop, deployments, d1 · test');
  });

  it('what is followed as the login ends is let go of, and goes on with the next', async (t) => {
    const streams = new Set<AbortSignal>();
    const stream: Api['stream'] = async (_url, { signal }) => {
      streams.add(signal);
      signal.addEventListener('abort', () => void streams.delete(signal));
      return new ReadableStream();
    };
    const page = openGate(t, '/apps/shop/logs', { stream });
    await page.after(500);
    assert.equal(streams.size, 1);
    page.be(sessionOver(page.session));
    await page.after(500);
    assert.equal(streams.size, 0);
    page.be({ ...page.session });
    await page.after(500);
    assert.equal(streams.size, 1);
  });

  it('an edit of variables that was not saved yet is there for who comes back to it', async (t) => {
    const call = async (line: string) => {
      if (line === 'GET /apps/:app') return someApp();
      if (line === 'GET /apps/:app/releases/:release') return someRelease({ env: { GREETING: 'hello' } });
      return new Promise(() => {});
    };
    const page = openGate(t, '/apps/shop/env', { call: call as Api['call'] });
    await page.after(200);
    page.document.press('Remove GREETING');
    await page.after(200);
    assert.match(page.text(), /1 removed/);
    page.visit('/apps/shop/logs');
    await page.after(200);
    assert.doesNotMatch(page.text(), /1 removed/);
    page.visit('/apps/shop/env');
    await page.after(200);
    assert.match(page.text(), /1 removed/);
    page.document.press('Discard');
    await page.after(200);
    page.visit('/');
    await page.after(200);
    page.visit('/apps/shop/env');
    await page.after(200);
    page.document.button('Remove GREETING');
  });

  it('an edit of variables says what somebody else has changed since it began', async (t) => {
    let app = someApp();
    let greeting = 'hello';
    const call = async (line: string) => {
      if (line === 'GET /apps/:app') return app;
      if (line === 'GET /apps/:app/releases/:release') return someRelease({ env: { GREETING: greeting } });
      return new Promise(() => {});
    };
    const page = openGate(t, '/apps/shop/env', { call: call as Api['call'] });
    await page.after(200);
    page.document.press('Remove GREETING');
    await page.after(200);
    assert.doesNotMatch(page.text(), /somebody else/);
    greeting = 'good evening';
    app = { ...app, releaseId: 'r2' };
    page.tell(put('app', app));
    await page.after(200);
    assert.match(page.text(), /changed by somebody else since: Undo shows theirs/);
    page.document.press('Save and deploy …');
    await page.after(200);
    assert.match(page.text(), /Somebody else has changed GREETING since you began/);
  });
});
