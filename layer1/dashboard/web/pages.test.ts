/** What stands on the pages for whom. */
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import type { Identity } from '@flynn/controller/access/model';
import type { Figures } from '@flynn/controller/figures/model';
import type { Role } from '@flynn/controller/access/roles';
import type { StreamEvent } from './api/streams.ts';
import { loadBundled } from './bundling-fixture.ts';
import { put, someApp, someDeployment, someFormation, someJob, someRoute, whole } from './world/world-fixture.ts';

type Rendering = {
  renderPage: (path: string, facts: { identity: Identity; told: readonly StreamEvent[] }) => string;
  renderCharts: (told: Figures, marks: readonly { id: string; at: number; name: string }[], nowMs: number) => string;
  renderLogin: (why?: string, token?: string) => string;
};

function whoIs(role: Role | 'none'): Identity {
  return { kind: 'user', name: 'ann', role, teams: [], apps: [] };
}

const running = [
  put('app', someApp()),
  put('formation', someFormation({ web: 2 })),
  put('job', someJob()),
  put('route', someRoute()),
];

describe('the pages', () => {
  let rendering: Rendering;
  before(async () => {
    rendering = await loadBundled('rendering-fixture.tsx');
  });

  it('list apps with their states, and what is short', () => {
    const html = rendering.renderPage('/', { identity: whoIs('developer'), told: [...running, whole] });
    assert.match(html, /<a href="\/apps\/shop"/);
    assert.match(html, /some down/);
    assert.match(html, /web 1 of 2/);
    assert.match(html, /href="http:\/\/shop\.example\.com"/);
  });

  it('say that they read, until everything was told', () => {
    const html = rendering.renderPage('/', { identity: whoIs('developer'), told: running });
    assert.match(html, /Reading apps/);
    assert.doesNotMatch(html, /shop/);
  });

  it('say what to type where there is nothing, to who may', () => {
    const empty = (role: Role | 'none') => rendering.renderPage('/', { identity: whoIs(role), told: [whole] });
    assert.match(empty('developer'), /flynn create shop\ngit push flynn main/);
    assert.doesNotMatch(empty('none'), /flynn create/);
    assert.match(empty('none'), /flynn access grant/);
    assert.doesNotMatch(empty('none'), /href="\/cluster"/);
  });

  it('have no button for what a role may not do', () => {
    const of = (role: Role) => rendering.renderPage('/apps/shop', { identity: whoIs(role), told: [...running, whole] });
    for (const name of [/One web more/, />Restart</, /Begin maintenance/, />Terminal</]) {
      assert.match(of('developer'), name);
      assert.doesNotMatch(of('viewer'), name);
    }
    assert.match(of('admin'), /Delete app/);
    assert.doesNotMatch(of('developer'), /Delete app/);
  });

  it('have a button for what a deployment may be told in its state', () => {
    const at = (state: 'running' | 'canary' | 'paused' | 'finishing') =>
      rendering.renderPage('/apps/shop', {
        identity: whoIs('developer'),
        told: [...running, put('deployment', someDeployment({ state })), whole],
      });
    const acts = (html: string) =>
      ['Pause', 'Resume', 'Promote', 'Abort'].filter((label) => html.includes(`>${label}</button>`));
    assert.deepEqual(acts(at('running')), ['Pause', 'Abort']);
    assert.deepEqual(acts(at('canary')), ['Pause', 'Promote', 'Abort']);
    assert.deepEqual(acts(at('paused')), ['Resume', 'Abort']);
    assert.deepEqual(acts(at('finishing')), []);
    const isScalable = (html: string) => html.includes('One web more');
    assert.deepEqual([isScalable(at('running')), isScalable(at('finishing'))], [false, true]);
  });

  it('draw what an app took, with the moments of deployments and where nothing is known', () => {
    const web = {
      type: 'web',
      jobs: [2, 2, 2],
      cpu: [0.25, null, 0.42],
      memoryBytes: [0, 0, 62 * 1024 ** 2],
      memoryLimitBytes: [null, null, 512 * 1024 ** 2],
    };
    const [one, none] = [
      [0, 5, 12.34],
      [null, null, null],
    ];
    const requests = {
      perSecond: one,
      clientErrorsPerSecond: [0, 0, 0],
      serverErrorsPerSecond: [0, 0, 2],
      inFlight: one,
      p50Ms: none,
      p95Ms: [null, null, 41.6],
      p99Ms: none,
    };
    const from = '2030-01-31T12:00:00.000Z';
    const told = { from, stepMs: 15_000, points: 3, knownSince: from, isLeftOut: false, types: [web], requests };
    const html = rendering.renderCharts(told, [{ id: 'd', at: 238, name: 'deployment' }], Date.parse(from) + 40_000);
    assert.match(html, /<span>now<\/span>/);
    assert.match(html, /<title[^>]*>Processors over the last hour<\/title>/);
    assert.match(html, /<path class="plot-line line-1" d="M237 50h\.01M239 16h\.01"/);
    assert.match(html, /<path class="plot-mark" d="M238 -2V102"/);
    assert.match(html, /<rect class="plot-unknown" x="0" y="-2" width="200"/);
    for (const legend of [
      'web <strong>0.42',
      'web <strong>62 MB of 512 MB',
      'all <strong>12.3',
      '5xx <strong>2',
      '95 % <strong>42 ms',
      '99 % <strong>–',
    ]) {
      assert.ok(html.includes(`${legend}</strong>`), legend);
    }
    assert.match(html, /aria-valuetext="[^"]+: web 0\.42"/);
    const rows = [...html.matchAll(/<tr><th scope="row">[^<]+<\/th>(.*?)<\/tr>/g)].map(([, row = '']) =>
      [...row.matchAll(/<td class="figure">([^<]*)<\/td>/g)].map(([, cell]) => cell),
    );
    assert.equal(rows.length, 12);
    assert.deepEqual(rows.at(-1), ['0.33', '21 MB', '5.78', '0.67', '42 ms']);
    assert.deepEqual(rows[0], ['–', '–', '–', '–', '–']);
    const late = rendering.renderCharts(told, [], Date.parse(from) + 3_600_000);
    assert.doesNotMatch(late, /<span>now/);
    assert.ok(late.includes(`<span>${new Date(Date.parse(from) + 30_000).toLocaleTimeString()}</span>`));
    assert.doesNotMatch(
      rendering.renderCharts({ ...told, requests: undefined }, [], Date.parse(from)),
      /Requests a second/,
    );
  });

  it('have charts of an app that was deployed, as large as they are to be, before anything is known', () => {
    const of = (told: readonly StreamEvent[]) =>
      rendering.renderPage('/apps/shop', { identity: whoIs('viewer'), told: [...told, whole] });
    const titles = (html: string) =>
      [...html.matchAll(/<strong>([^<]+)<\/strong><span class="dim">/g)].map(([, title]) => title);
    assert.deepEqual(titles(of(running)), ['Processors', 'Memory', 'Requests a second', 'Response time']);
    const { releaseId: _none, ...fresh } = someApp();
    assert.deepEqual(titles(of([put('app', fresh)])), []);
    assert.deepEqual(titles(of([put('app', someApp()), put('formation', someFormation({ clock: 1 }))])), [
      'Processors',
      'Memory',
    ]);
  });

  it('have a form for another database for who may change the app, and not on a database itself', () => {
    const of = (role: Role, more: Parameters<typeof someApp>[0] = {}) =>
      rendering.renderPage('/apps/shop/resources', { identity: whoIs(role), told: [put('app', someApp(more)), whole] });
    const form = /Reading what there is to be had/;
    assert.match(of('developer'), form);
    assert.doesNotMatch(of('viewer'), form);
    assert.doesNotMatch(of('admin', { datastore: { appliance: 'postgres', resourceId: 'x' } }), form);
  });

  it('never take what an app says for markup', () => {
    const lastError = '<img src=x onerror=alert(1)>';
    const failedJob = { id: 'j1', type: 'web', lines: ['\x1b[31m<script>alert(1)</script>'] };
    const deployment = someDeployment({ state: 'rolling_back', error: '<b>bad</b>', failedJob });
    const told = [...running, put('job', someJob({ lastError })), put('deployment', deployment), whole];
    const html = rendering.renderPage('/apps/shop', { identity: whoIs('developer'), told });
    assert.doesNotMatch(html, /<script|<img|<b>/);
    assert.match(html, /<span class="ansi-red">&lt;script>/);
  });

  it('say that an app is not there, and that a page is not', () => {
    assert.match(
      rendering.renderPage('/apps/blog', { identity: whoIs('viewer'), told: [whole] }),
      /no app &quot;blog&quot;/,
    );
    assert.match(
      rendering.renderPage('/nothing', { identity: whoIs('viewer'), told: [whole] }),
      /no page at \/nothing/,
    );
  });

  it('keep the cluster to those who have a role on it, and backups to its admins', () => {
    const of = (role: Role | 'none') => rendering.renderPage('/cluster', { identity: whoIs(role), told: [whole] });
    assert.match(of('none'), /have a role on it/);
    assert.match(of('viewer'), /Audit trail/);
    assert.doesNotMatch(of('viewer'), /Backups/);
    assert.match(of('admin'), /Backups/);
  });

  it('begin with a form that has a label, and why one is there again', () => {
    const html = rendering.renderLogin('The session is over');
    assert.match(html, /<label for="[^"]+">Token<\/label>/);
    assert.match(html, /type="password"/);
    assert.match(html, /role="status">The session is over/);
  });

  it('say of a link that it logs in as who made it, and leave the click to who opened it', () => {
    const notice = /logs you in as whoever made it/;
    const html = rendering.renderLogin(undefined, 'flynn_ab');
    assert.match(html, notice);
    assert.match(html, /type="password"[^>]* value="flynn_ab"/);
    assert.match(html, /<button type="submit"[^>]*aria-busy="?false[^>]*>Log in</);
    assert.doesNotMatch(rendering.renderLogin(), notice);
  });

  it('label every field, and name every button that has no text of its own', () => {
    const paths = [
      '/',
      '/apps/shop',
      '/apps/shop/resources',
      '/apps/shop/logs',
      '/apps/shop/terminal',
      '/cluster/audit',
    ];
    for (const path of paths) {
      const html = rendering.renderPage(path, { identity: whoIs('admin'), told: [...running, whole] });
      const labelled = new Set([...html.matchAll(/<label[^>]* for="([^"]+)"/g)].map((match) => match[1]));
      for (const [field] of html.matchAll(/<(?:input|select|textarea)[^>]*>/g)) {
        const id = / id="([^"]+)"/.exec(field)?.[1];
        assert.ok(labelled.has(id) || field.includes('type="checkbox"'), `${path}: ${field} has no label`);
      }
      for (const [button] of html.matchAll(/<button[^>]*>[−+]<\/button>/g)) assert.match(button, /aria-label=/);
    }
  });
});
