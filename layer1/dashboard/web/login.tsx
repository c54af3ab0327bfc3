/** The form for a token; one that came in the address is tried at once. */
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import type { Api } from './api/client.ts';
import { useAction } from './parts/loading.ts';
import { DoingNotice } from './parts/notices.tsx';

export function Login(props: {
  api: Api;
  why?: string | undefined;
  token?: string | undefined;
  onLoggedIn: () => Promise<void>;
}) {
  const { api, why, token: given, onLoggedIn } = props;
  const [token, setToken] = useState('');
  const id = useId();
  const field = useRef<HTMLInputElement>(null);
  const { doing, run } = useAction(async (_once, wanted: string) => {
    await api.logIn(wanted);
    await onLoggedIn();
  });
  useEffect(() => {
    if (given === undefined) field.current?.focus();
    else void run(given);
  }, []);
  const isPending = doing.is === 'pending';
  const submit = (event: Event) => {
    event.preventDefault();
    void run(token.trim());
  };
  return (
    <main class="login">
      <h1>flynn</h1>
      {why === undefined ? null : (
        <p class="notice" role="status">
          {why}
        </p>
      )}
      <form onSubmit={submit}>
        <label for={id}>Token</label>
        <input
          id={id}
          ref={field}
          name="token"
          type="password"
          autoComplete="current-password"
          required
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        <button type="submit" class="main" aria-busy={isPending} disabled={isPending || token.trim() === ''}>
          {isPending ? 'Logging in …' : 'Log in'}
        </button>
        <DoingNotice doing={doing} />
      </form>
      <p class="dim">
        In a terminal, <code>flynn dashboard</code> opens this page logged in; <code>flynn token create browser</code>{' '}
        makes a token to paste here.
      </p>
    </main>
  );
}
