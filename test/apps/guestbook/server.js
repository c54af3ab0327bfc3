// /?note=TEXT writes a line into its database and / reads them all. 503 where it cannot: nothing is answered that is not so.
const http = require('node:http');
const { Pool } = require('pg');

const url = process.env.DATABASE_URL;
// Less than whoever asks is ready to wait, and longer than a database that changes hands is away.
const patienceMs = 25_000;
const pool =
  url &&
  new Pool({ connectionString: url, max: 4, connectionTimeoutMillis: patienceMs, query_timeout: patienceMs });
// Of a connection at rest: the next query opens another.
pool?.on('error', (error) => console.log(`a connection ended: ${error.message}`));

async function answer(request, response) {
  if (!pool) return response.writeHead(200).end('no database yet\n');
  const note = new URL(request.url, 'http://localhost').searchParams.get('note');
  try {
    if (note !== null) {
      await pool.query('CREATE TABLE IF NOT EXISTS notes (id serial PRIMARY KEY, note text NOT NULL)');
      await pool.query('INSERT INTO notes (note) VALUES ($1)', [note]);
    }
    const { rows } = await pool.query('SELECT note FROM notes ORDER BY id');
    response.writeHead(200).end(rows.map((row) => `${row.note}\n`).join(''));
  } catch (error) {
    response.writeHead(503).end(`${error.message}\n`);
  }
}

http.createServer(answer).listen(Number(process.env.PORT) || 8080, () => console.log('listening'));
