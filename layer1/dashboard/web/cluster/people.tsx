/** Who may do what on the cluster: to look at. Changes are made by commands. */
import type { teams, tokens, users } from '@flynn/controller/access/api';
import { AskedButton } from '../parts/acts.tsx';
import { useLoaded } from '../parts/loading.ts';
import { Commands, Empty, Shown } from '../parts/notices.tsx';
import { Section } from '../parts/section.tsx';
import { useServices } from '../parts/services.ts';
import { Table } from '../parts/table.tsx';
import { Time } from '../parts/time.tsx';

export function People() {
  return (
    <>
      <Users />
      <Teams />
      <Tokens />
    </>
  );
}

function Users() {
  const { api } = useServices();
  const { loaded, reload } = useLoaded('users', (signal) =>
    api.call<typeof users.list>('GET /users', { query: {} }, { signal }),
  );
  return (
    <Section title="Users">
      <Shown loaded={loaded} what="users" reload={reload}>
        {(found) =>
          found.length === 0 ? (
            <Empty title="There is nobody but the root key.">
              <Commands lines={['flynn user add ann --role developer']} />
            </Empty>
          ) : (
            <Table caption="Users" head={['Name', 'Role on the cluster', 'Teams', '-Logs in by', '-Since']}>
              {found.map((user) => (
                <tr key={user.id}>
                  <th scope="row">{user.name}</th>
                  <td>{user.role ?? <span class="dim">none</span>}</td>
                  <td>{user.teams.join(', ') || '–'}</td>
                  <td class="wide">{user.issuer ?? 'token'}</td>
                  <td class="wide">
                    <Time at={user.createdAt} />
                  </td>
                </tr>
              ))}
            </Table>
          )
        }
      </Shown>
    </Section>
  );
}

function Teams() {
  const { api } = useServices();
  const { loaded, reload } = useLoaded('teams', (signal) =>
    api.call<typeof teams.list>('GET /teams', { query: {} }, { signal }),
  );
  return (
    <Section title="Teams">
      <Shown loaded={loaded} what="teams" reload={reload}>
        {(found) =>
          found.length === 0 ? (
            <Empty title="There is no team.">
              <Commands lines={['flynn team create ops', 'flynn team add ops ann']} />
            </Empty>
          ) : (
            <Table caption="Teams" head={['Name', 'Role on the cluster', 'Members']}>
              {found.map((team) => (
                <tr key={team.id}>
                  <th scope="row">{team.name}</th>
                  <td>{team.role ?? <span class="dim">none</span>}</td>
                  <td>{team.members.join(', ') || '–'}</td>
                </tr>
              ))}
            </Table>
          )
        }
      </Shown>
    </Section>
  );
}

function Tokens() {
  const { api, session } = useServices();
  const { loaded, reload } = useLoaded('tokens', (signal) =>
    api.call<typeof tokens.list>('GET /tokens', { query: {} }, { signal }),
  );
  const ownId = session.identity.token?.id;
  return (
    <Section title={session.identity.role === 'admin' ? 'Tokens' : 'Your tokens'}>
      <Shown loaded={loaded} what="tokens" reload={reload}>
        {(found) =>
          found.length === 0 ? (
            <Empty title="There is no token.">
              <Commands lines={['flynn token create ci --scope developer --only shop --expires 30d']} />
            </Empty>
          ) : (
            <Table caption="Tokens" head={['What for', 'Whose', 'At most', '-Apps', 'Expires', 'Actions']}>
              {found.map((token) => (
                <tr key={token.id}>
                  <th scope="row">
                    {token.name}
                    {token.id === ownId ? <span class="dim"> (this login)</span> : null}
                  </th>
                  <td>{token.user ?? 'the cluster'}</td>
                  <td>{token.role}</td>
                  <td class="wide">{token.apps?.join(', ') ?? 'all'}</td>
                  <td>{token.expiresAt === undefined ? 'never' : <Time at={token.expiresAt} />}</td>
                  <td class="row-acts">
                    {token.id === ownId ? null : (
                      <AskedButton
                        label="Take back"
                        name={`Take back ${token.name}`}
                        title={`Take ${token.name} back?`}
                        confirm="Take it back"
                        isDanger
                        act={async () => {
                          await api.call<typeof tokens.revoke>('DELETE /tokens/:token', {
                            params: { token: token.id },
                          });
                          reload();
                        }}
                      >
                        <p>It opens nothing from then on, and what is open with it ends.</p>
                      </AskedButton>
                    )}
                  </td>
                </tr>
              ))}
            </Table>
          )
        }
      </Shown>
    </Section>
  );
}
