// /?line=TEXT writes a line into its MySQL and / reads them all. 503 where it cannot: nothing is answered that is not so.
const http = require('node:http');
const mysql = require('mysql2/promise');

const pool = process.env.MYSQL_URL && mysql.createPool({ uri: process.env.MYSQL_URL, connectionLimit: 4, connectTimeout: 10_000 });

async function answer(request, response) {
  if (!pool) return response.writeHead(200).end('no database yet\n');
  const line = new URL(request.url, 'http://localhost').searchParams.get('line');
  try {
    if (line !== null) {
      await pool.query('CREATE TABLE IF NOT EXISTS lines_written (id INT AUTO_INCREMENT PRIMARY KEY, text TEXT NOT NULL)');
      await pool.query('CREATE OR REPLACE VIEW lines_read AS SELECT id, text FROM lines_written');
      await pool.execute('INSERT INTO lines_written (text) VALUES (?)', [line]);
    }
    const [rows] = await pool.query('SELECT text FROM lines_read ORDER BY id');
    response.writeHead(200).end(rows.map(({ text }) => `${text}\n`).join(''));
  } catch (error) {
    response.writeHead(503).end(`${error.message}\n`);
  }
}

http.createServer(answer).listen(Number(process.env.PORT) || 8080, () => console.log('listening'));
