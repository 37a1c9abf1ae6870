output "worker" {
  description = "The name of the Worker."
  value       = cloudflare_worker.redirects.name
}

output "namespaces" {
  description = "The KV namespaces by binding, for rmax.toml."
  value       = local.namespaces
}

output "database_id" {
  description = "The D1 database, for wrangler d1 migrations apply."
  value       = local.database_id
}
