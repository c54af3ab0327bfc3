// A provider of resources, as docs/resources.md asks for one. What it gave it forgets with its end.
const http = require('node:http');
const { text } = require('node:stream/consumers');

const token = process.env.PROVIDER_TOKEN;
const made = new Map();
/** Keys of what takes its time: the first answer says so, and when to ask again. */
const begun = new Set();

function provided(key) {
  if (!made.has(key)) made.set(key, { id: `db/${key}`, env: { DATABASE_URL: `postgres://user:secret@db/${key}` } });
  return made.get(key);
}

async function answer(request, response) {
  const say = (status, body) => {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  };
  const { method, url, headers } = request;
  if (method === 'GET') return say(200, url === '/begun' ? [...begun] : [...made.keys()]);
  if (token !== undefined && headers.authorization !== `Bearer ${token}`) return say(401, { message: 'who are you?' });
  if (method === 'DELETE') {
    const key = decodeURIComponent(url.slice('/resources/'.length)).slice('db/'.length);
    return made.delete(key) ? response.writeHead(204).end() : say(404, { message: 'gone' });
  }
  const { config } = JSON.parse(await text(request));
  if (config.plan === 'enormous') return say(422, { message: 'there is no plan "enormous"' });
  const key = headers['idempotency-key'];
  if (config.plan === 'slow' && !begun.has(key)) {
    begun.add(key);
    return response.writeHead(202, { 'retry-after': '1' }).end();
  }
  return say(201, provided(key));
}

const server = http.createServer((request, response) => {
  answer(request, response).catch((error) => response.writeHead(500).end(String(error)));
});
server.listen(Number(process.env.PORT) || 8080, () => console.log('provider is listening'));
process.on('SIGTERM', () => server.close(() => process.exit(0)));
