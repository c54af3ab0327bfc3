/** What the services send, cut down to what is around the fields that are read. */
import assert from 'node:assert/strict';
import type { IncomingHttpHeaders } from 'node:http';
import { test } from 'node:test';
import { judge, toldBy } from './event.ts';

const zeros = '0'.repeat(40);

function verdictOf(headers: IncomingHttpHeaders, payload: unknown, branch = 'main') {
  return judge(toldBy(headers, typeof payload === 'string' ? payload : JSON.stringify(payload)), branch);
}

const github = (ref: string, more: object = {}) => ({
  ref,
  before: '6113728f27ae82c7b1a177c8d03f9e96e0adf246',
  after: '59b20b8d5c6ff8d09518454d4dd8b7b30f095ab5',
  created: false,
  deleted: false,
  forced: false,
  base_ref: null,
  compare: 'https://github.example.com/Codertocat/Hello-World/compare/6113728f27ae...59b20b8d5c6f',
  commits: [],
  head_commit: { id: '59b20b8d5c6ff8d09518454d4dd8b7b30f095ab5', message: 'Update README', distinct: true },
  repository: { id: 186853002, full_name: 'Codertocat/Hello-World', default_branch: 'main' },
  pusher: { name: 'Codertocat', email: 'codertocat@example.com' },
  ...more,
});
const gitlab = (ref: string, more: object = {}) => ({
  object_kind: 'push',
  event_name: 'push',
  before: '95790bf891e76fee5e1747ab589903a6a1f80f22',
  after: 'da1560886d4f094c3e6c9ef40349f7d38b5d27d7',
  ref,
  checkout_sha: 'da1560886d4f094c3e6c9ef40349f7d38b5d27d7',
  project: { id: 15, path_with_namespace: 'mike/diaspora', default_branch: 'main' },
  commits: [],
  total_commits_count: 0,
  ...more,
});
const gitea = (ref: string) => ({
  ref,
  before: '28e1879d029cb852e4844d9c718537df08844e03',
  after: 'bffeb74224043ba2feb48d137756c8a9331c449a',
  compare_url: 'http://git.example.com/gitea/webhooks/compare/28e1879d029c...bffeb74224',
  commits: [{ id: 'bffeb74224043ba2feb48d137756c8a9331c449a', message: 'Webhooks Yay!' }],
  repository: { id: 140, full_name: 'gitea/webhooks', default_branch: 'main' },
});
const named = (type: string, name: string) => ({ type, name, target: { type: 'commit', hash: '709d658dc5b6' } });
const bitbucket = (...changes: object[]) => ({
  push: { changes },
  repository: { type: 'repository', full_name: 'team/shop' },
  actor: { type: 'user' },
});
const dataCenter = (id: string, type: string) => ({
  eventKey: 'repo:refs_changed',
  changes: [{ ref: { id, displayId: id.split('/').at(-1), type: 'BRANCH' }, refId: id, toHash: zeros, type }],
  repository: { slug: 'shop' },
});
const ofGithub = { 'x-github-event': 'push' };
const ofGitlab = { 'x-gitlab-event': 'Push Hook' };
const ofGitea = { 'x-gitea-event': 'push', 'x-gogs-event': 'push', 'x-github-event': 'push' };
const ofForgejo = { 'x-forgejo-event': 'push', ...ofGitea };
const ofBitbucket = { 'x-event-key': 'repo:push' };
const ofDataCenter = { 'x-event-key': 'repo:refs_changed' };

test('a push to the branch that is followed is looked for, whoever tells of it', () => {
  const told: [IncomingHttpHeaders, unknown][] = [
    [ofGithub, github('refs/heads/main')],
    [ofGitlab, gitlab('refs/heads/main')],
    [ofGitea, gitea('refs/heads/main')],
    [ofForgejo, gitea('refs/heads/main')],
    [ofBitbucket, bitbucket({ new: named('branch', 'main'), old: null, forced: false, truncated: false, commits: [] })],
    [ofBitbucket, bitbucket({ new: named('branch', 'x'), old: null }, { new: named('branch', 'main') })],
    [ofDataCenter, dataCenter('refs/heads/main', 'UPDATE')],
    // A script, with the secret.
    [{}, { ref: 'refs/heads/main' }],
  ];
  for (const [headers, payload] of told) {
    assert.deepEqual(verdictOf(headers, payload), { outcome: 'looks', what: 'a push to main' });
  }
  assert.equal(verdictOf(ofGithub, github('refs/heads/release/2.x'), 'release/2.x').outcome, 'looks');
  const form = { ...ofGithub, 'content-type': 'application/x-www-form-urlencoded' };
  const payload = new URLSearchParams({ payload: JSON.stringify(github('refs/heads/other + more')) }).toString();
  assert.match(verdictOf(form, payload).what, /^a push to other \+ more, and main /);
});

test('a push to something else, the end of the branch and what is no push are ignored, and it is said why', () => {
  const told: [IncomingHttpHeaders, unknown, RegExp][] = [
    [ofGithub, github('refs/heads/dev'), /^a push to dev, and main is what is followed$/],
    [ofGithub, github('refs/heads/main2'), /^a push to main2, /],
    [ofGithub, github('refs/heads/feature/main'), /^a push to feature\/main, /],
    [ofGithub, github('refs/tags/main'), /^a push to main, and main is/],
    [ofGithub, github('refs/heads/main', { deleted: true, after: zeros }), /^main was removed there$/],
    [ofGitlab, gitlab('refs/heads/main', { after: zeros, checkout_sha: null }), /^main was removed there$/],
    [{ 'x-gitlab-event': 'Tag Push Hook' }, gitlab('refs/tags/v1'), /^Tag Push Hook is no push$/],
    [{ 'x-gitlab-event': 'Merge Request Hook' }, {}, /^Merge Request Hook is no push$/],
    [{ 'x-github-event': 'pull_request' }, {}, /^pull_request is no push$/],
    [ofBitbucket, bitbucket({ new: null, old: named('branch', 'main') }), /^main was removed there$/],
    [ofBitbucket, bitbucket({ new: named('tag', 'main'), old: null }), /^a push to main, and/],
    [ofBitbucket, bitbucket(), /^a push to nothing, /],
    [ofDataCenter, dataCenter('refs/heads/main', 'DELETE'), /^main was removed there$/],
    [{ 'x-event-key': 'pullrequest:created' }, {}, /^pullrequest:created is no push$/],
  ];
  for (const [headers, payload, what] of told) {
    const verdict = verdictOf(headers, payload);
    assert.equal(verdict.outcome, 'ignored', JSON.stringify(payload));
    assert.match(verdict.what, what);
  }
});

test('a ping is answered; a push that cannot be read is looked for all the same', () => {
  const zen = { zen: 'Keep it logically awesome.', hook_id: 1, hook: { type: 'Repository', active: true } };
  assert.equal(verdictOf({ 'x-github-event': 'ping' }, zen).outcome, 'ping');
  assert.equal(verdictOf({ 'x-event-key': 'diagnostics:ping' }, { test: true }).outcome, 'ping');
  for (const unread of ['', 'not json', '[]', 'null', '{"ref":7}', '{"push":{"changes":[7]}}']) {
    assert.deepEqual(verdictOf(ofGithub, unread), { outcome: 'looks', what: 'a push' }, unread);
  }
  assert.deepEqual(judge(toldBy(ofGithub, undefined), 'main'), { outcome: 'looks', what: 'a push' });
});

test('what is written down of it is one line, and a short one', () => {
  const { what } = verdictOf(ofGithub, github(`refs/heads/a\u001b[31m\n\u202e${'x'.repeat(1_000)}`));
  assert.match(what, /^a push to a\?\[31m\?\?x+…, and main is what is followed$/);
  assert.ok(what.length < 160);
  assert.ok(verdictOf({ 'x-github-event': 'x'.repeat(8_000) }, {}).what.length < 160);
});
