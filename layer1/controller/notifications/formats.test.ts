import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatOf, requestOf } from './formats.ts';
import type { Message } from './message.ts';

const message: Message = {
  id: 'msg_1',
  type: 'app.failing',
  about: 'alert',
  at: '2026-06-01T12:01:00.000Z',
  severity: 'critical',
  subject: { kind: 'app', name: 'shop' },
  app: 'shop',
  title: 'shop on host h1: 1 job ends again & again',
  text: 'exit code 1: <!channel> *bold* @everyone',
  todo: 'flynn -a shop log',
  since: '2026-06-01T12:00:00.000Z',
};
const sender = { cluster: 'prod', domain: 'example.com', httpsPort: 443, notification: 'ops' };

test('programs get JSON of a version that is told, with where to look', () => {
  const { headers, body } = requestOf('json', message, sender);
  assert.equal(headers['content-type'], 'application/json');
  const { id, type, title, text, todo, since, severity, subject } = message;
  assert.deepEqual(JSON.parse(body), {
    version: 1,
    id,
    type,
    timestamp: message.at,
    data: {
      cluster: 'prod',
      notification: 'ops',
      severity,
      subject,
      app: 'shop',
      title,
      text,
      todo,
      since,
      url: 'https://dashboard.example.com/apps/shop',
    },
  });
  const { app: _app, todo: _todo, since: _since, ...bare } = message;
  const { data } = JSON.parse(requestOf('json', bare, { ...sender, httpsPort: 8443 }).body);
  assert.equal(data.url, 'https://dashboard.example.com:8443/cluster');
});

test('in Slack and Discord nobody is called, and nothing is marked, by what an app says', () => {
  const slack = JSON.parse(requestOf('slack', message, sender).body);
  assert.deepEqual(slack.text.split('\n'), [
    '🔴 *[prod] shop on host h1: 1 job ends again &amp; again*',
    'exit code 1: &lt;!channel&gt; *bold* @everyone',
    '→ flynn -a shop log',
    '<https://dashboard.example.com/apps/shop|dashboard>',
  ]);
  const discord = JSON.parse(requestOf('discord', message, sender).body);
  assert.deepEqual(discord.allowed_mentions, { parse: [] });
  assert.equal(discord.content.split('\n')[1], String.raw`exit code 1: \<!channel\> \*bold\* @everyone`);
  const long = { ...message, title: '*'.repeat(1_000), text: '_'.repeat(5_000), todo: '`'.repeat(5_000) };
  assert.ok(JSON.parse(requestOf('discord', long, sender).body).content.length <= 2_000);
});

test('ntfy gets text, and in its headers a title, how urgent it is and what to open', () => {
  const { headers, body } = requestOf('ntfy', { ...message, title: 'Platte voll: 97 % – jetzt' }, sender);
  assert.equal(body, `${message.text}\n→ flynn -a shop log`);
  assert.deepEqual([headers['priority'], headers['tags']], ['5', 'rotating_light']);
  assert.equal(headers['click'], 'https://dashboard.example.com/apps/shop');
  const [, encoded = ''] = /^=\?UTF-8\?B\?(.*)\?=$/.exec(headers['title'] ?? '') ?? [];
  assert.equal(Buffer.from(encoded, 'base64').toString(), '[prod] Platte voll: 97 % – jetzt');
  const good = requestOf('ntfy', { ...message, type: 'app.recovered', title: 'over\nand out' }, sender);
  assert.deepEqual([good.headers['priority'], good.headers['title']], ['3', '[prod] over and out']);
});

test('the format follows from the address of those who are known', () => {
  const all = {
    'https://hooks.slack.com/services/T/B/x': 'slack',
    'https://discord.com/api/webhooks/1/x': 'discord',
    'https://ntfy.sh/topic': 'ntfy',
    'https://ops.example.com/hook': 'json',
    'https://evil-discord.com/api/webhooks/1/x': 'json',
  };
  for (const [url, format] of Object.entries(all)) assert.equal(formatOf(url), format, url);
});
